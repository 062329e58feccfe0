// All output tokens as small maps, one beside the other: which looks where, and which of them use the chosen patch.

const THUMB = { width: 58, gap: 7, label: 15, bar: 4 };

function makeTokens(side, app) {
  const panel = card("tokens", "Output tokens");
  const canvas = make("canvas", { "aria-hidden": "true" });
  const stage = make("div", { className: "thumbs", tabIndex: 0, role: "application", "aria-label": "Output tokens: arrow keys move, A shows all together" }, canvas);
  const caption = make("p", { className: "caption" });
  let room = 0;
  const measure = ruler((width) => {
    room = width;
    if (view) update(view);
  });
  panel.body.append(measure, stage, caption);
  const store = document.createElement("canvas"); // the maps alone, redrawn only when they change
  let view = null;
  let layout = null;
  let storeKey = "";

  function update(next) {
    view = next;
    const expert = expertIn(side, view);
    layout = expert ? layoutOf(expert) : null;
    stage.hidden = !layout;
    if (!layout) return setText(caption, side.pictures.length ? "This run has no such vision expert for this picture." : "No picture, no output tokens.");
    setText(panel.heading, `Output tokens (${expert.v})`);
    setText(caption, captionOfTokens(side, expert, view));
    if (room) paint(expert);
  }

  function layoutOf(expert) {
    const width = Math.max(THUMB.width, room - 18); // a scroll bar may stand beside them
    const picture = side.pictures[expert.picture];
    const columns = Math.max(1, Math.floor((width + THUMB.gap) / (THUMB.width + THUMB.gap)));
    const cell = (width + THUMB.gap) / columns - THUMB.gap;
    const across = Math.min(cell, THUMB.width * 1.7);
    const down = Math.min(Math.max(16, (across * picture.height) / picture.width), 110);
    const used = Math.min(across, (down * picture.width) / picture.height);
    const pitchY = down + THUMB.label + THUMB.bar + THUMB.gap;
    return { columns, cell, across: used, down, pitchX: cell + THUMB.gap, pitchY, width, height: Math.ceil(expert.v / columns) * pitchY, count: expert.v };
  }

  const corner = (token) => [(token % layout.columns) * layout.pitchX, Math.floor(token / layout.columns) * layout.pitchY];

  function paint(expert) {
    const ratio = window.devicePixelRatio || 1;
    const key = [layout.width, layout.columns, ratio, expert.name, expert.picture, view.term, view.scale, view.range].join();
    if (key !== storeKey) {
      storeKey = key;
      drawStore(expert, ratio);
    }
    const context = fitCanvas(canvas, layout.width, layout.height);
    context.drawImage(store, 0, 0, layout.width, layout.height);
    drawMarks(context, expert);
  }

  function drawStore(expert, ratio) {
    store.width = Math.round(layout.width * ratio);
    store.height = Math.round(layout.height * ratio);
    const context = store.getContext("2d");
    const picture = side.pictures[expert.picture];
    const [w, h] = [Math.max(1, Math.round(layout.across * ratio)), Math.max(1, Math.round(layout.down * ratio))];
    const raster = rasterOf(expert, w, h, picture.width, picture.height);
    const image = context.createImageData(w, h);
    const term = thumbTerm(expert, view);
    for (let token = 0; token < expert.v; token++) {
      const map = mapOf(side, { ...view, term, token });
      fillImage(image, raster, map);
      const [x, y] = corner(token);
      context.putImageData(image, Math.round(x * ratio), Math.round((y + THUMB.label) * ratio));
    }
  }

  function drawMarks(context, expert) {
    const theme = themeOf(view);
    const pinned = view.source !== null && view.source < expert.n ? view.source : -1;
    const users = pinned >= 0 ? usersOf(expert, pinned) : [];
    const top = users.length ? users[0].weight : 1;
    const weights = new Map(users.map((one) => [one.token, one.weight]));
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (let token = 0; token < expert.v; token++) {
      const [x, y] = corner(token);
      context.fillStyle = theme.ink;
      context.fillText(String(token + 1), x + 1, y + THUMB.label / 2);
      const expertUsed = leaderOfVisual(side, view, token);
      if (expertUsed >= 0) {
        context.fillStyle = category(expertUsed, view);
        context.fillRect(x + layout.across - 18, y + 3, 18, 9);
      }
      if (pinned >= 0) {
        context.fillStyle = theme.line;
        context.fillRect(x, y + THUMB.label + layout.down + 1, layout.across, THUMB.bar);
        context.fillStyle = DATA.palette.categories[4];
        context.fillRect(x, y + THUMB.label + layout.down + 1, (layout.across * (weights.get(token) || 0)) / top, THUMB.bar);
      }
      if (token === view.token) {
        for (const [colour, wide] of [[theme.ground, 5], [theme.ink, 2.5]]) {
          context.strokeStyle = colour;
          context.lineWidth = wide;
          context.strokeRect(x - 0.5, y + THUMB.label - 0.5, layout.across + 1, layout.down + 1);
        }
      }
    }
  }

  const hit = (event) => {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const token = Math.floor(y / layout.pitchY) * layout.columns + Math.floor(x / layout.pitchX);
    return x >= 0 && x < layout.columns * layout.pitchX && token >= 0 && token < layout.count ? token : -1;
  };
  const choose = (token) => {
    const position = positionOfVisual(side, view.picture, token);
    app.select({ token, position: position < 0 ? app.chosen().position : keyOf(side, position) });
  };
  canvas.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch" || !layout) return;
    const token = hit(event);
    app.hover(token >= 0 ? { token } : {});
  });
  canvas.addEventListener("pointerleave", () => app.hover({}));
  canvas.addEventListener("click", (event) => {
    const token = hit(event);
    if (token < 0 || token === app.chosen().token) app.select({ token: null });
    else choose(token);
  });
  stage.addEventListener("keydown", (event) => {
    if (!layout) return;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -layout.columns, ArrowDown: layout.columns };
    if (event.key === "a" || event.key === "A") app.select({ token: null });
    else if (event.key === "Home") choose(0);
    else if (event.key === "End") choose(layout.count - 1);
    else if (event.key in steps) {
      const now = app.chosen().token;
      const next = now === null ? 0 : now + steps[event.key];
      if (next >= 0 && next < layout.count) choose(next);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return { element: panel, update };
}

// The small maps show the chosen term where it differs between output tokens, else the weights.
function thumbTerm(expert, view) {
  return view.term === "query" && expert.query ? "query" : "weights";
}

function fillImage(image, raster, map) {
  const data = image.data;
  const bytes = map.trouble ? null : tableOf(map.colours).bytes;
  for (let i = 0, at = 0; i < raster.length; i++, at += 4) {
    const value = raster[i] < 0 || !bytes ? NaN : map.values[raster[i]];
    if (Number.isNaN(value)) {
      const hatched = raster[i] >= 0 && ((i % image.width) + Math.floor(i / image.width)) % 6 < 2;
      data[at] = data[at + 1] = data[at + 2] = hatched ? 70 : 150;
      data[at + 3] = raster[i] < 0 ? 60 : 255;
      continue;
    }
    const step = stepOf(value, map.low, map.high) * 3;
    data[at] = bytes[step];
    data[at + 1] = bytes[step + 1];
    data[at + 2] = bytes[step + 2];
    data[at + 3] = 255;
  }
}

// The LoRA expert that an output token's position was routed to in the chosen layer; below 0 where there is none.
function leaderOfVisual(side, view, token) {
  const position = positionOfVisual(side, view.picture, token);
  return position < 0 ? -1 : leaderAt(side, view, position);
}

function leaderAt(side, view, position) {
  if (view.layer === null || view.layer >= side.layerCount || side.routeTrouble || !wasRead(side, position)) return -1;
  return leadersOf(side, "coefficient").leader[view.layer * side.positions + position];
}

function captionOfTokens(side, expert, view) {
  const parts = [];
  if (view.term !== "weights" && thumbTerm(expert, view) === "weights") parts.push("This term is one row for all output tokens: the small maps show their weights.");
  parts.push(view.range === "map" ? "Each small map has its own scale." : "One scale for all.");
  if (view.source !== null && view.source < expert.n) parts.push("The bar below each: its weight on the chosen patch.");
  if (view.layer !== null && view.layer < side.layerCount && !side.routeTrouble) parts.push(`The mark above each: its LoRA expert in layer ${layerName(side, view.layer)}.`);
  return parts.join(" ");
}
