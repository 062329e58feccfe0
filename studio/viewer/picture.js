// The picture with the chosen map on it. Every cell is the polygon of its token in pixels of the original picture.

const TERM_WORDS = { weights: "weights", query: "QUERY term", self: "SELF term", cross: "CROSS term", text: "TEXT term" };

function makePicture(side, app) {
  const panel = card("picture", "Picture");
  const image = make("img", { alt: "", draggable: false });
  const cells = make("canvas", { className: "cells", "aria-hidden": "true" });
  const marks = make("canvas", { className: "marks", "aria-hidden": "true" });
  const stage = make(
    "div",
    { className: "stage", tabIndex: 0, role: "application", "aria-label": "Source patches on the picture: arrow keys move, Escape lets go" },
    image, cells, marks,
  );
  const bar = colourBar();
  const readout = make("p", { className: "readout" });
  const notice = make("p", { className: "notice" });
  const caption = make("p", { className: "caption" });
  panel.body.append(make("div", { className: "frame" }, stage), notice, bar.element, readout, caption);

  let map = null;
  let view = null;
  let shownPicture = -1;
  let drawnKey = "";

  let size = { width: 0, height: 0 }; // kept by the observer below: asking the page would lay it out anew each time
  const picture = () => side.pictures[Math.min(view.picture, side.pictures.length - 1)];

  function update(next) {
    view = next;
    map = mapOf(side, view);
    if (side.pictures.length) layPicture();
    stage.hidden = !side.pictures.length;
    setText(panel.heading, titleOf());
    setText(notice, map.trouble);
    notice.hidden = !map.trouble;
    bar.element.hidden = Boolean(map.trouble);
    if (!map.trouble) bar.update(map.colours, map.low, map.high, unitOf(map), map.signed ? number : percent);
    setText(caption, map.trouble ? "" : captionOf(map, side, view));
    setText(readout, readoutOf());
    paint();
  }

  function layPicture() {
    if (shownPicture === view.picture) return;
    shownPicture = view.picture;
    const { width, height, source } = picture();
    stage.style.aspectRatio = `${width} / ${height}`;
    stage.style.setProperty("--aspect", String(width / height));
    image.hidden = !source;
    if (source) image.src = source;
    else image.removeAttribute("src");
  }

  function titleOf() {
    const where = side.pictures.length > 1 ? `, picture ${view.picture + 1}` : "";
    return map.expert ? `${map.expert.name} (${map.expert.domain}): ${TERM_WORDS[view.term]}${where}` : `Picture${where}`;
  }

  // Cells only when their values or place changed; marks always (they are few).
  function paint() {
    if (!side.pictures.length) return;
    const { width, height } = size;
    if (!width || !height) return;
    const [scaleX, scaleY] = [width / picture().width, height / picture().height];
    cells.style.opacity = view.opacity;
    const key = [width, height, devicePixelRatio, view.expert, view.picture, view.term, view.token, view.scale, view.range, view.token === null && view.lora !== null ? `${view.layer} ${view.lora}` : ""].join();
    if (key !== drawnKey) {
      drawnKey = key;
      paintCells(fitCanvas(cells, width, height), map, scaleX, scaleY);
    }
    const context = fitCanvas(marks, width, height);
    if (map.expert) paintMarks(context, map, view, scaleX, scaleY, width, height);
  }

  function readoutOf() {
    if (map.trouble || !map.expert) return "";
    if (view.source === null) return "Hover or click a patch: the output tokens that use it.";
    if (view.source >= map.expert.n) return `There is no source token ${view.source + 1} here: this expert has ${map.expert.n}.`;
    const value = map.values[view.source];
    const place = map.expert.grid ? ` (row ${Math.floor(view.source / map.expert.grid[1]) + 1}, column ${(view.source % map.expert.grid[1]) + 1})` : "";
    const users = usersOf(map.expert, view.source).slice(0, 4).map((one) => `${one.token + 1} (${percent(one.weight)})`);
    const shown = map.signed ? number(value) : percent(value);
    return `Source token ${view.source + 1}${place}: ${shown}. Used most by output tokens ${users.join(", ") || "none"}.`;
  }

  const hit = (event) => {
    if (!map || !map.expert) return -1;
    const box = stage.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * picture().width;
    const y = ((event.clientY - box.top) / box.height) * picture().height;
    return tokenAt(map.expert, x, y);
  };
  stage.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    const token = hit(event);
    app.hover(token >= 0 ? { source: token } : {});
  });
  stage.addEventListener("pointerleave", () => app.hover({}));
  stage.addEventListener("click", (event) => {
    const token = hit(event);
    app.select({ source: token < 0 || token === app.chosen().source ? null : token });
  });
  stage.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step || !map || !map.expert) return;
    event.preventDefault();
    app.select({ source: neighbour(map.expert, app.chosen().source, step) });
  });
  new ResizeObserver((entries) => {
    size = entries[entries.length - 1].contentRect;
    if (view) paint();
  }).observe(stage);
  return { element: panel, update, shown: () => shownPictureCells(map, view) };
}

function paintCells(context, map, scaleX, scaleY) {
  if (map.trouble) return;
  const { expert, values, low, high } = map;
  const table = tableOf(map.colours).names;
  const order = Array.from(values.keys()).filter((t) => expert.placed[t] && !Number.isNaN(values[t]));
  if (!expert.grid) order.sort((a, b) => values[a] - values[b]); // the heaviest on top where tokens overlap
  for (const token of order) {
    context.fillStyle = table[stepOf(values[token], low, high)];
    fillCell(context, expert, token, scaleX, scaleY);
  }
}

// Hatching where no value is or nothing was seen, outlines around what is chosen.
function paintMarks(context, map, view, scaleX, scaleY, width, height) {
  const { expert } = map;
  context.fillStyle = hatching(context);
  if (!map.trouble && map.missing) {
    for (let t = 0; t < expert.n; t++) if (expert.placed[t] && Number.isNaN(map.values[t])) fillCell(context, expert, t, scaleX, scaleY);
  }
  if (expert.unseen > 0.01) {
    context.beginPath();
    if (expert.window) {
      context.fillStyle = veil(context);
      context.rect(0, 0, width, height);
      tracePolygon(context, expert.seen, 0, scaleX, scaleY);
      context.fill("evenodd");
    } else {
      for (let at = 0; at < expert.seen.length; at += 8) tracePolygon(context, expert.seen, at, scaleX, scaleY);
      for (const [colour, wide] of [["rgba(0,0,0,0.75)", 3], ["#56b4e9", 1.3]]) {
        context.strokeStyle = colour;
        context.lineWidth = wide;
        context.stroke();
      }
    }
  }
  if (view.source !== null && view.source < expert.n && expert.placed[view.source]) outline(context, expert, view.source, scaleX, scaleY, "#ffffff", 2);
}

function unitOf(map) {
  if (map.signed) return `score, not weight (no unit); the middle is the mean${map.shared ? "; one scale for all maps of this expert" : ""}`;
  return `share of the mass${map.shared ? "; one scale for all maps of this expert" : ""}`;
}

function captionOf(map, side, view) {
  const { expert } = map;
  const parts = [`${map.which.words[0].toUpperCase()}${map.which.words.slice(1)}; ${expert.n} source tokens.`];
  if (!map.signed) {
    parts.push(`Sum ${number(map.sum, 4)}: drawn ${number(map.drawn, 4)}, on tokens without a place ${number(map.padding, 4)} (not painted).`);
    parts.push(`Effective source tokens ${number(map.effective)}.`);
  } else if (view.term !== "query") parts.push("This term is the same for all output tokens.");
  if (map.constant) parts.push("The map is constant: every token has the same value, so it tells nothing apart.");
  if (map.missing) parts.push(`Not evaluated (hatched): ${map.missing} of ${expert.n} tokens.`);
  if (expert.unseen > 0.01) {
    const how = expert.window ? "(thin lines)" : `(it read ${plural(expert.seen.length / 8, "outlined region")} only)`;
    parts.push(`${percent(expert.unseen)} of the picture was never seen by this expert ${how}.`);
  }
  if (!side.pictures[view.picture].source) parts.push("The picture itself is not in the trace; its frame stands in for it.");
  return [...parts, "A cell marks where a token sits, not all that it saw."].join(" ");
}

// The nearest token with a place in a direction; the first one when none is chosen.
function neighbour(expert, from, [dx, dy]) {
  const centre = (t) => [0, 1].map((axis) => [0, 2, 4, 6].reduce((sum, i) => sum + expert.polygons[t * 8 + i + axis], 0) / 4);
  const placed = Array.from({ length: expert.n }, (_, t) => t).filter((t) => expert.placed[t]);
  if (!placed.length) return null;
  if (from === null || from >= expert.n || !expert.placed[from]) return placed[0];
  const [x, y] = centre(from);
  let [best, cost] = [from, Infinity];
  for (const t of placed) {
    const [ox, oy] = centre(t).map((value, axis) => value - [x, y][axis]);
    const along = ox * dx + oy * dy;
    const aside = Math.abs(ox * dy) + Math.abs(oy * dx);
    if (along > 1e-6 && along + 3 * aside < cost) [best, cost] = [t, along + 3 * aside];
  }
  return best;
}

// For tests and scripts: exactly what is drawn.
function shownPictureCells(map, view) {
  const { expert } = map;
  if (map.trouble) return { trouble: map.trouble, cells: [] };
  const table = tableOf(map.colours).names;
  const cells = Array.from(map.values.keys()).filter((t) => expert.placed[t]).map((token) => ({
    token,
    polygon: [0, 2, 4, 6].map((i) => [expert.polygons[token * 8 + i], expert.polygons[token * 8 + i + 1]]),
    value: Number.isNaN(map.values[token]) ? null : map.values[token],
    colour: Number.isNaN(map.values[token]) ? null : table[stepOf(map.values[token], map.low, map.high)],
  }));
  const { low, high, sum, drawn, padding, constant, effective, missing } = map;
  return { trouble: "", expert: expert.name, term: view.term, low, high, sum, drawn, padding, constant, effective, missing, cells };
}
