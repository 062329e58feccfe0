// What the picture shows: values per source token, the ends of their colour scale, and the numbers beside them.

// The expert of a run that is chosen, or null.
function expertIn(side, view) {
  return side.experts.find((one) => one.name === view.expert && one.picture === view.picture) || null;
}

// One output token's row, or the mean of several (null: of all). One shared row stays as it is.
function rowOf(values, v, n, tokens) {
  if (values.length === n && v * n !== n) return Float64Array.from(values);
  const chosen = tokens || Array.from({ length: v }, (_, i) => i);
  const row = new Float64Array(n);
  for (const token of chosen) for (let i = 0, at = token * n; i < n; i++, at++) row[i] += values[at];
  if (chosen.length > 1) for (let i = 0; i < n; i++) row[i] /= chosen.length;
  return row;
}

// Which output tokens the map speaks of: {tokens (null: all), words, trouble}.
function tokensOf(side, expert, view) {
  if (view.token !== null) {
    if (view.token < expert.v) return { tokens: [view.token], words: `output token ${view.token + 1} of ${expert.v}` };
    return { tokens: [], trouble: `There is no output token ${view.token + 1} here: this run has ${expert.v} per picture.` };
  }
  if (view.layer !== null && view.lora !== null) {
    const name = `LoRA expert ${view.lora + 1} in layer ${layerName(side, view.layer)}`;
    const trouble = firedTrouble(side, view);
    if (trouble) return { tokens: [], trouble };
    const tokens = firedPositions(side, view.layer, view.lora).filter((p) => side.pictureOf[p] === view.picture && visualToken(side, p) >= 0);
    const output = tokens.map((p) => visualToken(side, p)).filter((token) => token < expert.v);
    if (!output.length) return { tokens: [], trouble: `No output token of this picture was routed to ${name}.` };
    return { tokens: output, words: `the ${plural(output.length, "output token")} routed to ${name} (mean)` };
  }
  return { tokens: null, words: `all ${expert.v} output tokens (mean)` };
}

// Everything the picture panel draws and says. `trouble` says in words why there is nothing to draw.
function mapOf(side, view) {
  const trouble = (text) => ({ trouble: text, expert: null });
  if (!side.pictures.length) return trouble("The question came without a picture: there is nothing to look at.");
  if (view.picture >= side.pictures.length) return trouble(`There is no picture ${view.picture + 1} here: this run has ${side.pictures.length}.`);
  const expert = expertIn(side, view);
  if (!expert) return trouble(`This run has no vision expert “${view.expert}”; it has ${unique(side.experts.map((one) => one.name)).join(", ") || "none"}.`);
  const which = tokensOf(side, expert, view);
  if (which.trouble) return { trouble: which.trouble, expert };
  const source = expert[view.term];
  if (!source) return { trouble: `Not available: this reducer weighs tokens without scores, so there is no ${view.term} term.`, expert };
  const values = rowOf(source, expert.v, expert.n, which.tokens);
  const map = { expert, values, which, term: view.term, trouble: "", ...numbersOf(expert, values) };
  map.trouble = emptyMap(expert, map);
  if (!map.trouble) Object.assign(map, scaleOf(expert, map, view));
  return map;
}

function emptyMap(expert, map) {
  if (expert.absent) return `The vision expert “${expert.name}” was absent in this run: it has no weights to show.`;
  if (!map.placed) return `No token of “${expert.name}” has a place on the picture.`;
  if (map.missing === map.placed) return `Not evaluated: the trace holds no values for “${expert.name}” here.`;
  if (map.term === "weights" && map.sum === 0) return "This output token has no weight on any source token.";
  return "";
}

function sumOf(values) {
  let sum = 0;
  for (const value of values) if (!Number.isNaN(value)) sum += value;
  return sum;
}

// Sums: all of it, what is drawn, and what lies on tokens without a place (reported, never painted).
function numbersOf(expert, values) {
  const found = { sum: 0, drawn: 0, padding: 0, placed: 0, missing: 0, low: Infinity, high: -Infinity, entropy: 0 };
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    found.placed += expert.placed[i];
    if (Number.isNaN(value)) {
      found.missing += expert.placed[i];
      continue;
    }
    found.sum += value;
    if (value > 0) found.entropy -= value * Math.log(value);
    if (!expert.placed[i]) {
      found.padding += value;
      continue;
    }
    found.drawn += value;
    found.low = Math.min(found.low, value);
    found.high = Math.max(found.high, value);
  }
  found.mean = found.drawn / Math.max(1, found.placed - found.missing);
  found.constant = found.placed - found.missing > 1 && found.high - found.low <= 1e-6 * Math.max(Math.abs(found.high), Math.abs(found.low));
  found.effective = found.sum > 0 ? Math.exp(found.entropy) : 0;
  return found;
}

// Ends of the scale: weights from zero up; terms both ways from their mean, which the softmax ignores.
function scaleOf(expert, map, view) {
  const signed = map.term !== "weights";
  const colours = SCALES[view.scale][signed ? "signed" : "weights"];
  const shared = view.range === "all";
  if (!signed) {
    const high = shared ? highestWeight(expert.name) : map.high * (map.constant ? 2 : 1);
    return { colours, signed, low: 0, high: high || 1, shared };
  }
  const reach = (shared ? widestTerm(expert.name) : Math.max(map.high - map.mean, map.mean - map.low)) || 1;
  return { colours, signed, low: map.mean - reach, high: map.mean + reach, shared };
}

const reaches = new Map();

function remembered(key, compute) {
  if (!reaches.has(key)) reaches.set(key, compute());
  return reaches.get(key);
}

// The largest weight that an expert gives anywhere on a picture, in all runs of the page.
function highestWeight(name) {
  return remembered(`weights ${name}`, () => {
    let high = 0;
    for (const one of SIDES.flatMap((side) => side.experts).filter((e) => e.name === name)) {
      for (let i = 0; i < one.weights.length; i++) if (one.placed[i % one.n] && one.weights[i] > high) high = one.weights[i];
    }
    return high;
  });
}

// The furthest that any term of an expert lies from its own mean, in all runs of the page.
function widestTerm(name) {
  return remembered(`terms ${name}`, () => {
    let reach = 0;
    for (const one of SIDES.flatMap((side) => side.experts).filter((e) => e.name === name)) {
      for (const term of CHOICES.term.slice(1)) {
        for (let at = 0; one[term] && at < one[term].length; at += one.n) {
          const row = numbersOf(one, one[term].subarray(at, at + one.n));
          if (row.placed > row.missing) reach = Math.max(reach, row.high - row.mean, row.mean - row.low);
        }
      }
    }
    return reach;
  });
}

// Output tokens by their weight on one source token, heaviest first.
function usersOf(expert, source) {
  const users = Array.from({ length: expert.v }, (_, token) => ({ token, weight: expert.weights[token * expert.n + source] }));
  return users.filter((one) => one.weight > 0).sort((a, b) => b.weight - a.weight || a.token - b.token);
}

// Source tokens with a place, heaviest first.
function heaviest(expert, values, count) {
  const order = Array.from(values.keys()).filter((i) => expert.placed[i] && values[i] > 0);
  return order.sort((a, b) => values[b] - values[a] || a - b).slice(0, count);
}

// The source token whose polygon holds a point of the original picture; the first where several overlap; -1 where none is.
function tokenAt(expert, x, y) {
  for (let t = 0; t < expert.n; t++) if (expert.placed[t] && holds(expert.polygons, t * 8, x, y)) return t;
  return -1;
}

function holds(p, at, x, y) {
  for (let i = 0; i < 4; i++) {
    const [a, b] = [at + 2 * i, at + 2 * ((i + 1) % 4)];
    if ((p[b] - p[a]) * (y - p[a + 1]) - (p[b + 1] - p[a + 1]) * (x - p[a]) < 0) return false;
  }
  return true;
}
