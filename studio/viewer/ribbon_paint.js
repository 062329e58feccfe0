// How the routing map is drawn and what is said about it.

function drawWindow(context, side, view, store, shape, scrolled, pointed) {
  const theme = themeOf(view);
  const { cell, row, width, map, columns } = shape;
  const first = Math.max(0, Math.floor(scrolled / cell));
  const last = Math.min(columns, Math.ceil((scrolled + width) / cell));
  const x = (column) => column * cell - scrolled;
  context.fillStyle = theme.soft;
  context.fillRect(x(first), RIBBON.role, (last - first) * cell, map);
  context.imageSmoothingEnabled = false;
  context.drawImage(store.canvas, first, 0, last - first, side.layerCount, x(first), RIBBON.role, (last - first) * cell, map);
  context.fillStyle = hatching(context);
  for (const column of store.unread) if (column >= first && column < last) context.fillRect(x(column), RIBBON.role, cell, map);
  for (const [column, layer] of store.holes) {
    if (column >= first && column < last) context.fillRect(x(column), RIBBON.role + (side.layerCount - 1 - layer) * row, cell, row);
  }
  context.fillStyle = theme.ground;
  for (let column = first; column <= last; column++) context.fillRect(Math.round(x(column)) - 0.5, RIBBON.role, 1, map);
  if (row >= 9) for (let layer = 1; layer < side.layerCount; layer++) context.fillRect(x(first), RIBBON.role + layer * row - 0.25, (last - first) * cell, 0.5);
  drawRoles(context, side, view, store, first, last, x);
  drawNames(context, side, view, store, shape, first, last, x);
  drawChosen(context, side, view, store, shape, x, pointed);
}

function drawRoles(context, side, view, store, first, last, x) {
  context.font = "600 11px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (let start = first; start < last; ) {
    const [role, picture] = [side.roles[store.positions[start]], side.pictureOf[store.positions[start]]];
    let end = start;
    while (end < last && side.roles[store.positions[end]] === role && side.pictureOf[store.positions[end]] === picture) end++;
    const name = side.roleNames[role];
    const text = name === "picture" ? `picture ${picture + 1}` : name;
    context.fillStyle = roleColour(name);
    context.fillRect(x(start) + 0.5, RIBBON.role - 4, x(end) - x(start) - 1, 3);
    context.fillStyle = themeOf(view).ink;
    if (context.measureText(text).width < x(end) - x(start) - 2) context.fillText(text, Math.max(x(start), 0) + 2, (RIBBON.role - 5) / 2 + 0.5);
    start = end;
  }
}

function drawNames(context, side, view, store, shape, first, last, x) {
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "right";
  context.fillStyle = themeOf(view).muted;
  const own = positionOf(side, view.position);
  for (let column = first; column < last; column++) {
    const position = store.positions[column];
    const visual = visualToken(side, position);
    const text = visual >= 0 ? String(visual + 1) : side.labels[position];
    context.save();
    context.translate(x(column) + shape.cell / 2, RIBBON.role + shape.map + 5);
    context.rotate(-Math.PI / 2);
    if (position === own) {
      context.fillStyle = themeOf(view).ink;
      context.font = "700 11px system-ui, sans-serif";
    }
    context.fillText(text.length > 10 ? `${text.slice(0, 9)}…` : text, 0, 0);
    context.restore();
  }
}

// The column whose route is shown (solid), the token's own column (dashed), the layer, the cell under the pointer.
function drawChosen(context, side, view, store, shape, x, pointed) {
  const own = positionOf(side, view.position);
  const box = (left, top, width, height, dash) => {
    for (const [colour, wide] of [[themeOf(view).ground, 4], [themeOf(view).ink, 2]]) {
      context.strokeStyle = colour;
      context.lineWidth = wide;
      context.setLineDash(dash);
      context.strokeRect(left, top, width, height);
    }
    context.setLineDash([]);
  };
  if (view.layer !== null && view.layer < side.layerCount) {
    box(x(0) - 4, RIBBON.role + (side.layerCount - 1 - view.layer) * shape.row, shape.cell * shape.columns + 8, shape.row, []);
  }
  if (own >= 0) {
    const route = routePosition(side, view, own);
    const at = (position) => store.positions.indexOf(position);
    if (route !== own && at(own) >= 0) box(x(at(own)), RIBBON.role, shape.cell, shape.map, [3, 3]);
    if (at(route) >= 0) box(x(at(route)), RIBBON.role, shape.cell, shape.map, []);
  }
  if (pointed) box(x(store.positions.indexOf(pointed.position)), RIBBON.role + (side.layerCount - 1 - pointed.layer) * shape.row, shape.cell, shape.row, []);
}

function drawGutter(context, side, view, shape) {
  const step = Math.max(1, Math.ceil(14 / shape.row));
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (let layer = 0; layer < side.layerCount; layer++) {
    const chosen = layer === view.layer;
    if (!chosen && (layer % step || (view.layer !== null && Math.abs(layer - view.layer) < step))) continue;
    context.font = `${chosen ? "700 " : ""}11px system-ui, sans-serif`;
    context.fillStyle = chosen ? themeOf(view).ink : themeOf(view).muted;
    context.fillText(layerName(side, layer), RIBBON.gutter - 6, RIBBON.role + (side.layerCount - layer - 0.5) * shape.row);
  }
  context.save();
  context.translate(8, RIBBON.role + shape.map / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = "center";
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = themeOf(view).muted;
  context.fillText("layer", 0, 0);
  context.restore();
}

// One button per LoRA expert ("what fires it in the chosen layer"), and what strength of colour means.
function legendOf(side, view, app, store) {
  const buttons = Array.from({ length: side.routedCount }, (_, expert) => {
    const square = make("span", { className: "square", "aria-hidden": "true" });
    square.style.background = category(expert, view);
    const button = make("button", {
      type: "button", className: "key", title: "Show what fires this expert in the chosen layer",
      onclick: () => app.select({ lora: app.chosen().lora === expert ? null : expert, layer: app.chosen().layer ?? 0 }),
    }, square, `LoRA expert ${expert + 1}`);
    button.dataset.lora = String(expert);
    return button;
  });
  const bar = colourBar();
  const grey = "#7d8592";
  const colours = view.colour === null ? [mixed(grey, themeOf(view).ground, DATA.palette.faint), grey] : SCALES[view.scale].weights;
  const what = { probability: "router probability", coefficient: "coefficient used", norm: "relative norm" }[view.quantity];
  bar.update(colours, ...store.ends, view.colour === null ? `strength of colour: ${what}` : `${what} of LoRA expert ${view.colour + 1}`, number);
  const hatch = make("span", { className: "key still" }, make("span", { className: "square hatch", "aria-hidden": "true" }), "not evaluated");
  return [make("div", { className: "keys" }, buttons, hatch), bar.element];
}

function cellWords(side, view, layer, position) {
  const head = `${nameOf(side, position)}, ${side.roleNames[side.roles[position]]}, position ${position + 1}, layer ${layerName(side, layer)}`;
  if (!wasRead(side, position)) return `${head}: not evaluated, this position was never read.`;
  const each = Array.from({ length: side.routedCount }, (_, e) => {
    const [p, c] = ["probability", "coefficient"].map((quantity) => number(routeValue(side, quantity, layer, position, e)));
    return `expert ${e + 1}: probability ${p}, coefficient ${c}`;
  });
  return `${head}. ${each.join("; ")}.`;
}

function chosenWords(side, view) {
  const own = positionOf(side, view.position);
  if (own >= 0 && view.layer !== null && view.layer < side.layerCount) return cellWords(side, view, view.layer, routePosition(side, view, own));
  return "Hover a cell for its numbers; click to choose token and layer.";
}

function ribbonCaption(side, view, store) {
  const read = store.positions.filter((position) => wasRead(side, position)).length;
  const meaning = view.colour !== null ? "One expert's value in every cell." : {
    probability: "Colour: the router's first choice; strength: its probability (soft).",
    coefficient: "Colour: the expert with the largest coefficient; strength: what really multiplied its output.",
    norm: "Colour: the routed expert that added most; strength: |c B A x| / |f_ORI(x)|, the general expert left out.",
  }[view.quantity];
  const unread = store.positions.length - read ? ` ${plural(store.positions.length - read, "position")} generated last and never read: not evaluated (hatched).` : "";
  const phase = { all: "prompt and answer", prompt: "prompt only", answer: "answer only" }[view.phase];
  const roles = side.roleNames.filter((role) => !view.hidden.includes(role)).join(", ");
  return `${meaning} n = ${plural(read, "position")} (${phase}; roles: ${roles}) in ${plural(side.layerCount, "layer")}; ${side.routedCount} routed experts, top ${side.topK}.${unread} `
    + "The route of an answer token is that of the position before it, which predicted it (solid frame); its own column (dashed) is the position that reads it.";
}
