// Routing of all positions through all layers. Only the columns in sight are drawn, from a copy with one pixel per cell.

const RIBBON = { role: 18, labels: 74, gutter: 40, smallest: 11, largest: 44 };

function makeRibbon(side, app) {
  const panel = card("ribbon", "Routing through the layers");
  const trouble = make("p", { className: "notice" });
  const legend = make("div", { className: "legend" });
  const gutter = make("canvas", { className: "gutter", "aria-hidden": "true" });
  const canvas = make("canvas", { className: "window", "aria-hidden": "true" });
  const spacer = make("div", { className: "spacer" }, canvas);
  const scroller = make("div", {
    className: "scroller", tabIndex: 0, role: "application", "aria-label": "Routing map: left and right move along tokens, up and down through layers, Escape lets go",
  }, spacer);
  const readout = make("p", { className: "readout" });
  const caption = make("p", { className: "caption" });
  let room = 0;
  const measure = ruler((width) => {
    room = width;
    if (view) update(view);
  });
  panel.body.append(trouble, legend, measure, make("div", { className: "map" }, gutter, scroller), readout, caption);
  let view = null;
  let shape = null;
  let store = null;
  let storeKey = "";
  let pending = 0;
  let pointed = null;

  function update(next) {
    view = next;
    const problem = troubleOf();
    setText(trouble, problem);
    trouble.hidden = !problem;
    for (const one of [legend, scroller.parentElement, readout, caption]) one.hidden = Boolean(problem);
    if (problem) return;
    const key = [view.quantity, view.colour, view.phase, view.hidden, view.scale, isDark(view)].join();
    if (key !== storeKey) {
      storeKey = key;
      store = ribbonStore(side, view);
      legend.replaceChildren(...legendOf(side, view, app, store));
      setText(caption, ribbonCaption(side, view, store));
    }
    for (const button of legend.querySelectorAll("button")) button.setAttribute("aria-pressed", String(Number(button.dataset.lora) === view.lora));
    layOut();
    draw();
  }

  function troubleOf() {
    if (side.routeTrouble) return side.routeTrouble;
    if (view.colour !== null && view.colour >= side.routedCount) return `There is no LoRA expert ${view.colour + 1} here: this run has ${side.routedCount}.`;
    return shownPositions(side, view).length ? "" : "No position of this run fits the chosen roles and phase.";
  }

  function layOut() {
    const width = Math.max(0, room - RIBBON.gutter);
    const columns = store.positions.length;
    const cell = Math.min(RIBBON.largest, Math.max(RIBBON.smallest, width / columns));
    const row = Math.max(7, Math.min(16, 380 / side.layerCount));
    shape = { width, cell, row, columns, map: row * side.layerCount, height: RIBBON.role + row * side.layerCount + RIBBON.labels };
    spacer.style.width = `${Math.max(width, Math.ceil(cell * columns))}px`;
    spacer.style.height = `${shape.height}px`;
  }

  function draw() {
    pending = 0;
    if (!store || !shape || !shape.width) return;
    drawWindow(fitCanvas(canvas, shape.width, shape.height), side, view, store, shape, scroller.scrollLeft, pointed);
    drawGutter(fitCanvas(gutter, RIBBON.gutter, shape.height), side, view, shape);
    setText(readout, pointed ? cellWords(side, view, pointed.layer, pointed.position) : chosenWords(side, view));
  }

  const later = () => {
    if (!pending) pending = requestAnimationFrame(draw);
  };
  const hit = (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left + scroller.scrollLeft) / shape.cell);
    const layer = side.layerCount - 1 - Math.floor((event.clientY - box.top - RIBBON.role) / shape.row);
    return column >= 0 && column < shape.columns ? { position: store.positions[column], layer: layer >= 0 && layer < side.layerCount ? layer : null } : null;
  };
  scroller.addEventListener("scroll", later, { passive: true });
  canvas.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch" || !shape) return;
    const found = hit(event);
    pointed = found && found.layer !== null ? found : null;
    app.hover(found ? hoverOf(side, found.position) : {});
    later();
  });
  canvas.addEventListener("pointerleave", () => {
    pointed = null;
    app.hover({});
    later();
  });
  canvas.addEventListener("click", (event) => {
    const found = shape && hit(event);
    if (!found) return;
    choosePosition(side, app, found.position, true, found.layer === null ? {} : { layer: found.layer });
  });
  scroller.addEventListener("keydown", (event) => {
    if (!shape) return;
    const [across, up] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key] || [0, 0];
    if (!across && !up) return;
    event.preventDefault();
    if (up) return app.select({ layer: Math.min(Math.max((app.chosen().layer ?? (up > 0 ? -1 : 1)) + up, 0), side.layerCount - 1) });
    const now = store.positions.indexOf(positionOf(side, app.chosen().position));
    const column = now < 0 ? 0 : Math.min(Math.max(now + across, 0), shape.columns - 1);
    choosePosition(side, app, store.positions[column], true);
    const left = column * shape.cell;
    if (left < scroller.scrollLeft) scroller.scrollLeft = left;
    if (left + shape.cell > scroller.scrollLeft + shape.width) scroller.scrollLeft = left + shape.cell - shape.width;
  });
  return { element: panel, update, scroller, shown: () => shownRoutes(side, view, store, troubleOf()) };
}

// Colours of all cells, one pixel each (layer 0 in the lowest row), and which columns hold no value at all.
function ribbonStore(side, view) {
  const positions = shownPositions(side, view);
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, positions.length);
  canvas.height = Math.max(1, side.layerCount);
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const ends = strengthEnds(side, view, positions);
  const ramps = rampsOf(side, view);
  const unread = [];
  const holes = [];
  positions.forEach((position, column) => {
    if (!wasRead(side, position)) return unread.push(column);
    for (let layer = 0; layer < side.layerCount; layer++) {
      const cell = cellOf(side, view, layer, position);
      if (Number.isNaN(cell.value)) holes.push([column, layer]);
      else if (cell.expert >= 0) {
        const bytes = ramps[cell.expert].bytes;
        const step = stepOf(cell.value, ...ends) * 3;
        const at = ((side.layerCount - 1 - layer) * canvas.width + column) * 4;
        for (let part = 0; part < 3; part++) image.data[at + part] = bytes[step + part];
        image.data[at + 3] = 255;
      }
    }
  });
  context.putImageData(image, 0, 0);
  return { canvas, positions, unread, holes, ends };
}

// What one cell shows: the leading expert and its strength, or one expert's value.
function cellOf(side, view, layer, position) {
  if (view.colour !== null) return { expert: view.colour, value: routeValue(side, view.quantity, layer, position, view.colour) };
  const { leader, strength } = leadersOf(side, view.quantity);
  const at = layer * side.positions + position;
  return { expert: leader[at], value: strength[at] };
}

function rampsOf(side, view) {
  const colours = (expert) => {
    if (view.colour !== null) return SCALES[view.scale].weights;
    return [mixed(category(expert, view), themeOf(view).ground, DATA.palette.faint), category(expert, view)];
  };
  return Array.from({ length: side.routedCount }, (_, expert) => tableOf(colours(expert)));
}

// For tests and scripts: exactly what is drawn.
function shownRoutes(side, view, store, trouble) {
  if (trouble) return { trouble, positions: [] };
  const rows = Array.from({ length: side.layerCount }, (_, layer) => store.positions.map((position) => cellOf(side, view, layer, position)));
  return {
    trouble: "", quantity: view.quantity, positions: store.positions, low: store.ends[0], high: store.ends[1],
    leader: rows.map((row) => row.map((cell) => cell.expert)),
    strength: rows.map((row) => row.map((cell) => (Number.isNaN(cell.value) ? null : cell.value))),
  };
}
