// Canvases: sharp on any screen, exact cells, hatching for what holds no value, colour bars with numbers.

// Size a canvas in page pixels and return its cleared context, in page pixels.
function fitCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [across, down] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== across) canvas.width = across;
  if (canvas.height !== down) canvas.height = down;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

let hatchTile = null;

// Grey diagonal lines: not evaluated, or never seen. Never a colour of a scale.
function hatching(context) {
  if (!hatchTile) {
    hatchTile = document.createElement("canvas");
    hatchTile.width = hatchTile.height = 8;
    const pen = hatchTile.getContext("2d");
    pen.fillStyle = "rgba(150,150,150,0.85)";
    pen.fillRect(0, 0, 8, 8);
    pen.strokeStyle = "rgba(45,45,45,0.8)";
    pen.lineWidth = 1.4;
    for (const shift of [-8, 0, 8]) {
      pen.beginPath();
      pen.moveTo(shift - 1, 9);
      pen.lineTo(shift + 9, -1);
      pen.stroke();
    }
  }
  return context.createPattern(hatchTile, "repeat");
}

let veilTile = null;

// Thin lines over what an expert never saw: the picture stays readable below.
function veil(context) {
  if (!veilTile) {
    veilTile = document.createElement("canvas");
    veilTile.width = veilTile.height = 10;
    const pen = veilTile.getContext("2d");
    for (const [colour, shift] of [["rgba(255,255,255,0.55)", 1], ["rgba(30,30,30,0.75)", 0]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = 1.2;
      for (const x of [-10, 0, 10]) {
        pen.beginPath();
        pen.moveTo(x - 1 + shift, 11);
        pen.lineTo(x + 11 + shift, -1);
        pen.stroke();
      }
    }
  }
  return context.createPattern(veilTile, "repeat");
}

function tracePolygon(context, p, at, scaleX, scaleY) {
  context.moveTo(p[at] * scaleX, p[at + 1] * scaleY);
  for (let i = 2; i < 8; i += 2) context.lineTo(p[at + i] * scaleX, p[at + i + 1] * scaleY);
  context.closePath();
}

// Fill one token's cell. Upright cells end on whole device pixels, so that neighbours share an edge without a seam.
function fillCell(context, expert, token, scaleX, scaleY) {
  const [p, at] = [expert.polygons, token * 8];
  if (expert.upright[token]) {
    const ratio = window.devicePixelRatio || 1;
    const snap = (value) => Math.round(value * ratio) / ratio;
    const [left, top, right, bottom] = [snap(p[at] * scaleX), snap(p[at + 1] * scaleY), snap(p[at + 4] * scaleX), snap(p[at + 5] * scaleY)];
    context.fillRect(left, top, right - left, bottom - top);
    return;
  }
  context.beginPath();
  tracePolygon(context, p, at, scaleX, scaleY);
  context.fill();
}

// A dark line under a light one: visible on any picture.
function outline(context, expert, token, scaleX, scaleY, colour, width) {
  context.beginPath();
  tracePolygon(context, expert.polygons, token * 8, scaleX, scaleY);
  context.strokeStyle = "rgba(0,0,0,0.85)";
  context.lineWidth = width + 2;
  context.stroke();
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.stroke();
}

// A colour bar with numbers at its ends and middle. update(colours, low, high, text of a value, unit)
function colourBar() {
  const canvas = make("canvas", { className: "ramp", "aria-hidden": "true" });
  const ticks = make("div", { className: "ticks" });
  const unit = make("span", { className: "unit" });
  const element = make("div", { className: "colourbar" }, unit, make("div", { className: "scale" }, canvas, ticks));
  let drawn = "";
  const update = (colours, low, high, words, format) => {
    const key = `${colours.join()} ${low} ${high} ${words}`;
    if (key === drawn) return;
    drawn = key;
    setText(unit, words);
    canvas.width = 256;
    canvas.height = 1;
    const context = canvas.getContext("2d");
    const table = tableOf(colours).names;
    for (let x = 0; x < 256; x++) {
      context.fillStyle = table[Math.round((x / 255) * (STEPS - 1))];
      context.fillRect(x, 0, 1, 1);
    }
    ticks.replaceChildren(...[low, (low + high) / 2, high].map((value) => make("span", {}, format(value))));
  };
  return { element, update };
}

// Token of each pixel of a small copy of the picture (-1: none), by the same test as under the pointer.
function rasterOf(expert, width, height, pictureWidth, pictureHeight) {
  const raster = new Int32Array(width * height).fill(-1);
  const p = expert.polygons;
  for (let t = expert.n - 1; t >= 0; t--) {
    if (!expert.placed[t]) continue;
    const xs = [0, 2, 4, 6].map((i) => (p[t * 8 + i] / pictureWidth) * width);
    const ys = [1, 3, 5, 7].map((i) => (p[t * 8 + i] / pictureHeight) * height);
    const [x0, x1] = [Math.max(0, Math.floor(Math.min(...xs))), Math.min(width - 1, Math.ceil(Math.max(...xs)))];
    const [y0, y1] = [Math.max(0, Math.floor(Math.min(...ys))), Math.min(height - 1, Math.ceil(Math.max(...ys)))];
    for (let y = y0; y <= y1; y++) {
      for (let x = x0; x <= x1; x++) {
        if (holds(p, t * 8, ((x + 0.5) / width) * pictureWidth, ((y + 0.5) / height) * pictureHeight)) raster[y * width + x] = t;
      }
    }
  }
  return raster;
}
