// Everything about what is chosen: a token with its candidates and route, a patch with its users, a layer with its experts.

function makeDetails(side, app) {
  const panel = card("details", "Details");
  const blocks = { token: make("div"), patch: make("div"), layer: make("div"), shares: make("div") };
  panel.body.append(...Object.values(blocks));
  const keys = {};
  const refresh = (name, key, build) => {
    const words = key.join("|");
    if (keys[name] === words) return;
    keys[name] = words;
    blocks[name].replaceChildren(...build().filter(Boolean));
  };
  function update(view) {
    const dark = isDark(view);
    refresh("token", [view.position, view.route, view.layer, view.expert, view.picture, dark], () => tokenBlock(side, app, view));
    refresh("patch", [view.source, view.expert, view.picture], () => patchBlock(side, app, view));
    refresh("layer", [view.layer, view.lora, view.phase, view.hidden, dark], () => layerBlock(side, app, view));
    refresh("shares", [dark], () => sharesBlock(side));
  }
  return { element: panel, update, text: () => panel.innerText };
}

function tokenBlock(side, app, view) {
  if (!view.position) return [make("p", { className: "hint" }, "Choose a token of the text, an output token or a cell of the routing map.")];
  const missing = missingPosition(side, view.position);
  if (missing) return [make("p", { className: "notice" }, missing)];
  const position = positionOf(side, view.position);
  const role = side.roleNames[side.roles[position]];
  const heading = make("h4", {}, make("bdi", { className: "token" }, nameOf(side, position)), make("span", { className: "tag" }, role));
  const facts = make("p", { className: "facts" }, `position ${position + 1} of ${side.positions}, id ${side.ids[position]}, bytes ${hexOf(side, position)}`);
  return [heading, facts, ...answerPart(side, position), ...visualPart(side, app, view, position), ...routePart(side, app, view, position)];
}

function answerPart(side, position) {
  const token = answerToken(side, position);
  if (token < 0) return [];
  const k = side.candidates;
  const rows = side.topLabels[token].map((label, i) => {
    const chosen = side.topIds[token][i] === side.ids[position];
    const share = side.top[token * k + i];
    return barRow(label, share, percent(share), chosen);
  });
  return [
    make("p", {}, `Answer token ${token + 1} of ${side.positions - side.promptLength}: probability ${percent(side.chosen[token])} when it was chosen.`),
    make("h5", {}, `Likeliest candidates (top ${side.topLabels[token].length})`),
    make("ol", { className: "bars" }, rows),
  ];
}

// An output token is mixed from every vision expert: where from, for each of them.
function visualPart(side, app, view, position) {
  const token = visualToken(side, position);
  if (token < 0) return [];
  const picture = side.pictureOf[position];
  const rows = side.experts.filter((one) => one.picture === picture && token < one.v).map((one) => {
    const row = one.weights.subarray(token * one.n, (token + 1) * one.n);
    const found = numbersOf(one, row);
    const patches = heaviest(one, row, 3).map((source) =>
      make("button", { type: "button", className: "link", onclick: () => app.select({ expert: one.name, picture, token, source }) }, `${source + 1} (${percent(row[source])})`));
    const name = make("button", { type: "button", className: "link", onclick: () => app.select({ expert: one.name, picture, token }) }, one.name);
    return [name, found.sum === 0 ? "absent" : number(found.effective), found.sum === 0 ? "" : make("span", { className: "patches" }, patches.length ? patches : "none on the picture"), percent(found.padding)];
  });
  return [tableElement(`Output token ${token + 1}: its source patches in each vision expert`, ["expert", "effective patches", "heaviest patches", "without a place"], rows)];
}

function routePart(side, app, view, position) {
  if (side.routeTrouble) return [make("h5", {}, "Route"), make("p", { className: "notice" }, side.routeTrouble)];
  const answer = answerToken(side, position) >= 0;
  const route = routePosition(side, view, position);
  const says = answer && view.route === "predicted"
    ? `Route of position ${route + 1} (“${nameOf(side, route)}”), which predicted this token.`
    : `Route of position ${position + 1}, which reads this token.`;
  const swap = answer && make("button", {
    type: "button", className: "small", onclick: () => app.select({ route: app.chosen().route === "predicted" ? "reads" : "predicted" }),
  }, view.route === "predicted" ? "Show the position that reads it" : "Show the position that predicted it");
  const head = [make("h5", {}, "Route through the layers"), make("p", {}, says, " ", swap || null)];
  if (!wasRead(side, route)) return [...head, make("p", { className: "hatched" }, "Not evaluated: this token was generated last and never read.")];
  const used = usedOverLayers(side, route).map((count, e) => `expert ${e + 1} in ${count}`).join(", ");
  return [...head, routeCanvas(side, app, view, route), make("p", { className: "caption" }, `Bars: router probability; dot: really used. Of ${plural(side.layerCount, "layer")}: ${used}.`)];
}

// One row per layer: probabilities as a stacked bar, a dot on what was used. Layer 0 is the lowest row, as in the map.
function routeCanvas(side, app, view, position) {
  const [width, gutter] = [320, 26];
  const row = Math.max(6, Math.min(12, 300 / side.layerCount));
  const canvas = make("canvas", { className: "route", role: "img", "aria-label": "Router probability of each LoRA expert in each layer" });
  const context = fitCanvas(canvas, width, row * side.layerCount);
  context.font = "10px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "right";
  const step = Math.max(1, Math.ceil(13 / row));
  for (let layer = 0; layer < side.layerCount; layer++) {
    const top = row * (side.layerCount - 1 - layer);
    context.fillStyle = themeOf(view).muted;
    if (layer % step === 0) context.fillText(layerName(side, layer), gutter - 5, top + row / 2);
    let x = gutter;
    for (let e = 0; e < side.routedCount; e++) {
      const p = routeValue(side, "probability", layer, position, e);
      if (Number.isNaN(p)) {
        context.fillStyle = hatching(context);
        context.fillRect(gutter, top, width - gutter, row - 1);
        break;
      }
      const wide = p * (width - gutter);
      context.fillStyle = category(e, view);
      context.fillRect(x, top, wide, row - 1);
      if (routeValue(side, "coefficient", layer, position, e) > 0) {
        context.beginPath();
        context.arc(x + wide / 2, top + (row - 1) / 2, Math.min(3.2, row / 3), 0, 7);
        context.fillStyle = "#ffffff";
        context.fill();
        context.strokeStyle = "#000000";
        context.lineWidth = 1;
        context.stroke();
      }
      x += wide;
    }
    if (layer === view.layer) {
      context.strokeStyle = themeOf(view).ink;
      context.lineWidth = 2;
      context.strokeRect(gutter - 1, top - 0.5, width - gutter + 1, row);
    }
  }
  canvas.addEventListener("click", (event) => {
    const layer = side.layerCount - 1 - Math.floor(event.offsetY / row);
    app.select({ layer: app.chosen().layer === layer ? null : layer });
  });
  return canvas;
}

function patchBlock(side, app, view) {
  const expert = expertIn(side, view);
  if (view.source === null || !expert) return [];
  const heading = make("h4", {}, `Patch ${view.source + 1}`, make("span", { className: "tag" }, expert.name));
  if (view.source >= expert.n) return [heading, make("p", { className: "notice" }, `There is no source token ${view.source + 1} here: this expert has ${expert.n}.`)];
  const users = usersOf(expert, view.source);
  if (!users.length) return [heading, make("p", { className: "notice" }, "No output token gives it any weight.")];
  const rows = users.slice(0, 8).map(({ token, weight }) => {
    const position = positionOfVisual(side, view.picture, token);
    const pick = () => app.select({ token, ...(position >= 0 ? { position: keyOf(side, position) } : {}) });
    return barRow(make("button", { type: "button", className: "link name", onclick: pick }, `output token ${token + 1}`), weight / users[0].weight, percent(weight));
  });
  return [heading, make("h5", {}, `Output tokens that use it most (${users.length} of ${expert.v} use it)`), make("ol", { className: "bars" }, rows)];
}

function layerBlock(side, app, view) {
  if (view.layer === null || side.routeTrouble) return [];
  if (view.layer >= side.layerCount) return [make("p", { className: "notice" }, `There is no layer ${view.layer} here: this run has ${side.layerCount} layers.`)];
  const shown = shownPositions(side, view).filter((position) => wasRead(side, position));
  const rows = Array.from({ length: side.routedCount }, (_, e) => {
    const fired = firedPositions(side, view.layer, e).filter((position) => isShown(side, view, position));
    const visual = fired.filter((position) => visualToken(side, position) >= 0).length;
    const square = make("span", { className: "square", "aria-hidden": "true" });
    square.style.background = category(e, view);
    const pressed = view.lora === e;
    const button = make("button", {
      type: "button", className: "link", "aria-pressed": String(pressed), onclick: () => app.select({ lora: pressed ? null : e, ...(pressed ? {} : { token: null }) }),
    }, square, `expert ${e + 1}`);
    const examples = unique(fired.filter((p) => visualToken(side, p) < 0).map((p) => side.labels[p])).slice(0, 6);
    const texts = make("span", { className: "patches" }, examples.map((label) => make("bdi", { className: "chip still" }, label)));
    return [button, `${fired.length} of ${shown.length}`, String(visual), texts];
  });
  const hint = view.lora === null ? "Choose an expert to mark its tokens and to see their patches." : firedWords(view);
  return [
    make("h4", {}, `Layer ${layerName(side, view.layer)}`, make("span", { className: "tag" }, side.layerNames[view.layer])),
    tableElement("What fires each LoRA expert here (really used; chosen phase and roles)", ["expert", "tokens", "output tokens", "among them"], rows),
    make("p", { className: "hint" }, hint),
  ];
}

function firedWords(view) {
  const map = view.token === null ? "The picture shows the patches of its output tokens (mean)." : "Choose “all” output tokens to see their patches on the picture.";
  return `Tokens that fire expert ${view.lora + 1} are framed in the text. ${map}`;
}
