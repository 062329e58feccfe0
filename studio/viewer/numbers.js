// Numbers of the whole run: each vision expert's map, what was measured by causal tests, and where the run came from.

function makeNumbers(side) {
  const panel = card("numbers", "Numbers");
  panel.body.append(...[expertTable(side), routingFacts(side), testsOf(side), withoutPicture(side), provenanceOf(side)].filter(Boolean));
  return { element: panel, update: () => {} };
}

function expertTable(side) {
  if (!side.experts.length) return make("p", { className: "notice" }, "There were no vision experts in this run.");
  const several = side.pictures.length > 1;
  const rows = side.experts.map((one) => {
    const found = numbersOf(one, rowOf(one.weights, one.v, one.n, null));
    const name = several ? `${one.name}, picture ${one.picture + 1}` : one.name;
    const effective = meanEffective(one);
    const area = (part) => percent(areaHolding(side, one, part));
    if (one.absent) return [name, String(one.n), "absent", "", "", "", "", "", ""];
    return [name, String(one.n), number(found.sum, 4), number(found.drawn, 4), number(found.padding, 4), number(effective), `${area(0.5)}, ${area(0.9)}`, number(one.likeness, 2), String(found.missing)];
  });
  return tableElement(
    "Mean over output tokens. Drawn + without a place = sum. Area: share of the picture under the tokens that hold 50 % and 90 % of the mass. Likeness 1: all output tokens look at the same.",
    ["vision expert", "source tokens", "sum", "drawn", "without a place (not painted)", "effective per output token", "area of 50 %, 90 %", "likeness", "not evaluated"],
    rows,
  );
}

function meanEffective(expert) {
  let sum = 0;
  for (let token = 0; token < expert.v; token++) sum += numbersOf(expert, expert.weights.subarray(token * expert.n, (token + 1) * expert.n)).effective;
  return sum / expert.v;
}

// Share of the picture under the fewest tokens that hold a part of the mass; overlaps count once each, capped at 1.
function areaHolding(side, expert, part) {
  const values = rowOf(expert.weights, expert.v, expert.n, null).map((value) => (Number.isNaN(value) ? 0 : value));
  const total = sumOf(values);
  const order = Array.from(values.keys()).sort((a, b) => values[b] - values[a] || a - b);
  let [held, area] = [0, 0];
  for (const token of order) {
    if (held >= part * total * (1 - 1e-6)) break;
    held += values[token];
    area += expert.areas[token];
  }
  const picture = side.pictures[expert.picture];
  return Math.min(1, area / (picture.width * picture.height));
}

function routingFacts(side) {
  if (side.routeTrouble) return make("p", { className: "notice" }, side.routeTrouble);
  const rows = Array.from({ length: side.routedCount }, (_, e) => {
    let [used, chance] = [0, 0];
    const cells = side.layerCount * side.readCount;
    for (let at = e; at < side.coefficient.length; at += side.routedCount) {
      used += side.coefficient[at] > 0 ? 1 : 0;
      chance += side.probability[at];
    }
    return [`LoRA expert ${e + 1}`, percent(used / cells), percent(chance / cells), percent(side.topK / side.routedCount)];
  });
  return tableElement(
    `Load over ${plural(side.layerCount, "layer")} and ${plural(side.readCount, "read position")}${side.general ? "; the general expert is always on" : ""}.`,
    ["expert", "really used", "mean probability", "balance"], rows,
  );
}

// Contribution of each vision expert to the answer, where it was measured.
function sharesBlock(side) {
  const found = side.analyses.contributions;
  const heading = make("h4", {}, "Share per vision expert");
  if (!found || !Array.isArray(found.shapley) || !Array.isArray(found.names)) return [heading, make("p", { className: "hint" }, "Not measured in this run.")];
  const most = Math.max(...found.shapley.map((value) => Math.abs(value ?? 0)), 1e-12);
  const rows = found.names.map((name, i) => {
    const value = found.shapley[i];
    const row = barRow(String(name), Math.abs(value ?? 0) / most, Number.isFinite(value) ? `${value >= 0 ? "+" : "−"}${Math.abs(value).toFixed(3)}` : "not evaluated");
    if (value < 0) row.classList.add("negative");
    return row;
  });
  const total = Number.isFinite(found.v_all) && Number.isFinite(found.v_none) ? ` They add up to v(all) − v(none) = ${number(found.v_all - found.v_none)}.` : "";
  return [heading, make("ul", { className: "bars" }, rows), make("p", { className: "caption" }, `Shapley values for the whole answer, in nats of its log-probability; single tokens were not measured.${total}`)];
}

// Verdicts of deletion and insertion tests, one per map, where they were made.
function testsOf(side) {
  const rows = Object.entries(side.analyses).filter(([name, value]) => name.startsWith("faithfulness") && value && typeof value === "object")
    .map(([name, value]) => [name.split("/").slice(1).join("/") || name, String(value.verdict ?? "measured")]);
  return rows.length ? tableElement("Deletion and insertion of the heaviest tokens against random ones", ["map", "what it showed"], rows) : null;
}

function withoutPicture(side) {
  const blind = side.analyses.without_picture;
  return blind && typeof blind.answer === "string" ? make("p", {}, "Without the picture the model answers: ", make("q", { dir: "auto" }, blind.answer)) : null;
}

function provenanceOf(side) {
  const text = JSON.stringify({ settings: side.settings, provenance: side.provenance, "timings (seconds)": side.timings, layers: side.layerNames }, null, 2);
  return make("details", {}, make("summary", {}, "Settings and provenance"), make("pre", { tabIndex: 0 }, text));
}
