// Where tokens were routed: leaders and strengths per layer and position, and which position speaks for which token.

function layerName(side, layer) {
  return side.layers[layer] ?? String(layer);
}

// One quantity of a routed expert at a layer and position; NaN where the decoder never read.
function routeValue(side, quantity, layer, position, expert) {
  if (position >= side.readCount) return NaN;
  return side[quantity][(layer * side.readCount + position) * side.routedCount + expert];
}

const leaderTables = new WeakMap();

// Leading expert (-1: none took part, -2: not evaluated) and its strength, layers x positions.
function leadersOf(side, quantity) {
  if (!leaderTables.has(side)) leaderTables.set(side, new Map());
  const tables = leaderTables.get(side);
  if (!tables.has(quantity)) tables.set(quantity, computeLeaders(side, quantity));
  return tables.get(quantity);
}

function computeLeaders(side, quantity) {
  const { layerCount, positions, readCount, routedCount } = side;
  const leader = new Int8Array(layerCount * positions).fill(-2);
  const strength = new Float32Array(layerCount * positions).fill(NaN);
  const values = side[quantity];
  for (let layer = 0; layer < layerCount; layer++) {
    for (let p = 0; p < readCount; p++) {
      let [best, most] = [-1, -Infinity];
      for (let e = 0, at = (layer * readCount + p) * routedCount; e < routedCount; e++, at++) {
        if (Number.isNaN(values[at])) {
          best = -2;
          break;
        }
        if (values[at] > most) [best, most] = [e, values[at]];
      }
      if (best < 0) continue;
      const cell = layer * positions + p;
      leader[cell] = most === 0 ? -1 : best;
      strength[cell] = most;
    }
  }
  return { leader, strength };
}

// Ends of the strength scale over the positions shown, as in the routing figure.
function strengthEnds(side, view, positions) {
  if (view.quantity === "probability") return [view.colour === null && side.routedCount > 1 ? 1 / side.routedCount : 0, 1];
  const { strength } = leadersOf(side, view.quantity);
  let high = 0;
  for (let layer = 0; layer < side.layerCount; layer++) {
    for (const position of positions) if (strength[layer * side.positions + position] > high) high = strength[layer * side.positions + position];
  }
  return [0, high || 1];
}

// Positions in the chosen phase and roles.
function shownPositions(side, view) {
  const found = [];
  for (let p = 0; p < side.positions; p++) if (isShown(side, view, p)) found.push(p);
  return found;
}

function isShown(side, view, position) {
  if (view.hidden.includes(side.roleNames[side.roles[position]])) return false;
  return view.phase === "all" || (view.phase === "prompt") === position < side.promptLength;
}

// The number of an answer token, from 0; -1 for positions of the prompt.
function answerToken(side, position) {
  return position >= side.promptLength ? position - side.promptLength : -1;
}

// Whose route is shown for a position: an answer token's is that of the position that predicted it, or that reads it.
function routePosition(side, view, position) {
  return answerToken(side, position) >= 0 && view.route === "predicted" ? position - 1 : position;
}

function wasRead(side, position) {
  return position >= 0 && position < side.readCount;
}

// Positions that really used a routed expert in a layer.
function firedPositions(side, layer, expert) {
  const found = [];
  for (let p = 0; p < side.readCount; p++) if (routeValue(side, "coefficient", layer, p, expert) > 0) found.push(p);
  return found;
}

// Why no position can be named for the chosen layer and LoRA expert; "" where it can.
function firedTrouble(side, view) {
  if (side.routeTrouble) return side.routeTrouble;
  if (view.layer >= side.layerCount) return `There is no layer ${view.layer} here: this run has ${side.layerCount} layers.`;
  if (view.lora >= side.routedCount) return `There is no LoRA expert ${view.lora + 1} here: this run has ${side.routedCount}.`;
  return "";
}

// How often each routed expert was really used, over layers, at one position.
function usedOverLayers(side, position) {
  const counts = new Array(side.routedCount).fill(0);
  for (let layer = 0; layer < side.layerCount; layer++) {
    for (let e = 0; e < side.routedCount; e++) if (routeValue(side, "coefficient", layer, position, e) > 0) counts[e]++;
  }
  return counts;
}
