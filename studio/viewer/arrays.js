// Out of the page's data: typed arrays, and one object per run ("side") with everything the panels read.

const HALF = (() => {
  // Every fp16 number as a float, by its bits.
  const table = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    let value = exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
    if (exponent === 31) value = fraction ? NaN : Infinity;
    table[bits] = bits & 32768 ? -value : value;
  }
  return table;
})();

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

function arrayOf(field) {
  if (!field) return null;
  const bytes = bytesOf(field.data);
  if (field.kind === "u1") return bytes;
  if (field.kind === "i4") return new Int32Array(bytes.buffer);
  if (field.kind === "f4") return new Float32Array(bytes.buffer);
  const bits = new Uint16Array(bytes.buffer);
  const values = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) values[i] = HALF[bits[i]];
  return values;
}

function expertOf(raw) {
  const expert = { name: raw.name, domain: raw.domain, picture: raw.picture, grid: raw.grid, unseen: raw.unseen, likeness: raw.likeness };
  for (const name of ["weights", "query", "self", "cross", "text", "polygons", "placed", "seen", "areas"]) expert[name] = arrayOf(raw[name]);
  [expert.v, expert.n] = raw.weights.shape;
  expert.upright = uprightCells(expert.polygons);
  expert.window = expert.seen.length === 8 && uprightCells(expert.seen)[0] === 1;
  expert.absent = expert.weights.every((weight) => weight === 0);
  return expert;
}

// Whether each polygon is an axis-parallel rectangle, corners clockwise from the upper left.
function uprightCells(p) {
  const upright = new Uint8Array(p.length / 8);
  for (let t = 0, i = 0; t < upright.length; t++, i += 8) {
    upright[t] = p[i] === p[i + 6] && p[i + 2] === p[i + 4] && p[i + 1] === p[i + 3] && p[i + 5] === p[i + 7] ? 1 : 0;
  }
  return upright;
}

function sideOf(raw, index) {
  const side = { ...raw, index };
  side.experts = raw.experts.map(expertOf);
  for (const name of ["probability", "coefficient", "norm", "generalNorm", "ids", "roles", "pictureOf", "chosen", "top"]) side[name] = arrayOf(raw[name]);
  [side.layerCount, side.readCount, side.routedCount] = raw.probability.shape;
  side.positions = side.roles.length;
  side.candidates = raw.top.shape[1];
  side.ranks = rankInRole(side);
  return side;
}

// How many positions of the same role stand before each one: what a position is called across runs.
function rankInRole(side) {
  const seen = new Int32Array(side.roleNames.length);
  return Int32Array.from(side.roles, (role) => seen[role]++);
}

function unique(values) {
  return [...new Set(values)];
}
