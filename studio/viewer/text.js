// Tokens are bytes: which of them only together make a character, how a text is read, and where its lines end.

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

// Runs of positions with one role (and one picture), in order.
function segmentsOf(side) {
  const segments = [];
  for (let p = 0; p < side.positions; p++) {
    const last = segments[segments.length - 1];
    if (last && last.role === side.roles[p] && last.picture === side.pictureOf[p]) last.end = p + 1;
    else segments.push({ role: side.roles[p], picture: side.pictureOf[p], start: p, end: p + 1 });
  }
  return segments;
}

// Length of the valid UTF-8 character that starts at a byte; 1 where there is none.
function characterLength(bytes, at) {
  const lead = bytes[at];
  const length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 1;
  for (let i = 1; i < length; i++) if ((bytes[at + i] & 0xc0) !== 0x80) return 1;
  return length;
}

// Positions that share a character (or an emoji family, or a letter and its accents): [{start, end, text}].
function tiesOf(side, segment) {
  const parts = [];
  const owner = [];
  for (let p = segment.start; p < segment.end; p++) {
    const bytes = bytesOf(side.bytes[p]);
    parts.push(...bytes);
    for (let i = 0; i < bytes.length; i++) owner.push(p);
  }
  const bytes = Uint8Array.from(parts);
  const pieces = [];
  for (let at = 0; at < bytes.length; ) {
    const length = characterLength(bytes, at);
    pieces.push({ text: decoder.decode(bytes.subarray(at, at + length)), from: at, to: at + length });
    at += length;
  }
  const ties = [];
  for (const piece of joinGraphemes(pieces)) {
    const [start, end] = [owner[piece.from], owner[piece.to - 1] + 1];
    if (end - start < 2) continue;
    const last = ties[ties.length - 1];
    if (last && start < last.end) Object.assign(last, { end, text: last.text + piece.text });
    else ties.push({ start, end, text: piece.text });
  }
  return ties;
}

// Characters joined into what a reader sees as one, where the browser can tell.
function joinGraphemes(pieces) {
  if (!window.Intl || !Intl.Segmenter) return pieces;
  const joined = [];
  let index = 0;
  for (const { segment } of new Intl.Segmenter("und", { granularity: "grapheme" }).segment(pieces.map((piece) => piece.text).join(""))) {
    let left = segment.length;
    const start = index;
    while (left > 0 && index < pieces.length) left -= pieces[index++].text.length;
    if (index > start) joined.push({ text: segment, from: pieces[start].from, to: pieces[index - 1].to });
  }
  return joined;
}

// "rtl" where the first letter with a direction is right-to-left.
function directionOf(text) {
  const found = /[A-Za-z\u00c0-\u024f\u0370-\u058f\u0900-\u1fff\u3040-\ud7ff]|([\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc])/.exec(text);
  return found && found[1] ? "rtl" : "ltr";
}

function segmentText(side, segment) {
  const bytes = [];
  for (let p = segment.start; p < segment.end; p++) bytes.push(...bytesOf(side.bytes[p]));
  return decoder.decode(Uint8Array.from(bytes));
}

function hexOf(side, position) {
  const bytes = bytesOf(side.bytes[position]);
  return bytes.length ? Array.from(bytes, (byte) => byte.toString(16).toUpperCase().padStart(2, "0")).join(" ") : "none";
}

// What to call a position: its token, or its number within its picture.
function nameOf(side, position) {
  if (side.roleNames[side.roles[position]] !== "picture") return side.labels[position];
  return `picture ${side.pictureOf[position] + 1} · ${visualToken(side, position) + 1}`;
}

// Number (from 0) of a picture's position among the positions of the same picture; -1 for other roles.
function visualToken(side, position) {
  return visualOf(side).number[position];
}

// The position that reads an output token of a picture, or -1.
function positionOfVisual(side, picture, token) {
  return visualOf(side).position.get(`${picture} ${token}`) ?? -1;
}

function visualOf(side) {
  if (!side.visual) {
    const position = new Map();
    const seen = new Map();
    const number = Int32Array.from(side.roles, (role, p) => {
      if (side.roleNames[role] !== "picture") return -1;
      const count = seen.get(side.pictureOf[p]) || 0;
      seen.set(side.pictureOf[p], count + 1);
      position.set(`${side.pictureOf[p]} ${count}`, p);
      return count;
    });
    side.visual = { number, position };
  }
  return side.visual;
}
