// What is chosen, the same for all runs of the page, and how it stands in the address so that a link reopens it.

const SIDES = DATA.traces.map(sideOf);
const ROLES = SIDES[0].roleNames;
const names = (pick) => unique(SIDES.flatMap(pick));
const most = (pick) => Math.max(0, ...SIDES.map(pick));

// Allowed values of each choice; the first is the default. A count n stands for 0..n-1, with null (nothing chosen) first.
const CHOICES = {
  expert: names((side) => side.experts.map((one) => one.name)),
  picture: Array.from({ length: Math.max(1, most((side) => side.pictures.length)) }, (_, i) => i),
  term: ["weights", "query", "self", "cross", "text"],
  token: { count: most((side) => Math.max(0, ...side.experts.map((one) => one.v))) },
  source: { count: most((side) => Math.max(0, ...side.experts.map((one) => one.n))) },
  position: { pattern: new RegExp(`^(${ROLES.join("|")}):\\d{1,7}$`), start: most((side) => side.positions - side.promptLength) ? "answer:0" : null },
  route: ["predicted", "reads"],
  layer: { count: most((side) => side.layerCount) },
  lora: { count: most((side) => side.routedCount) },
  colour: { count: most((side) => side.routedCount) },
  quantity: ["probability", "coefficient", "norm"],
  phase: ["all", "prompt", "answer"],
  scale: Object.keys(SCALES),
  range: ["map", "all"],
  theme: ["auto", "light", "dark"],
  opacity: { low: 0, high: 1, start: 0.65 },
  hidden: { list: ROLES, start: ["pad"] },
};

const start = (rule) => (Array.isArray(rule) ? rule[0] ?? null : rule.start ?? null);
const DEFAULTS = Object.fromEntries(Object.entries(CHOICES).map(([name, rule]) => [name, start(rule)]));

// The value where it is allowed, else undefined. Text from an address is taken as what it stands for.
function allowed(name, value) {
  const rule = CHOICES[name];
  if (!rule) return undefined;
  if (Array.isArray(rule)) return rule.find((one) => one === value || String(one) === value);
  if (rule.list) return (Array.isArray(value) ? value : String(value).split(",")).filter((one) => rule.list.includes(one));
  if (value === null || value === "") return rule.low === undefined ? null : undefined;
  if (rule.pattern) return rule.pattern.test(value) ? value : undefined;
  const found = Number(value);
  if (rule.low !== undefined) return found >= rule.low && found <= rule.high ? found : undefined;
  return Number.isInteger(found) && found >= 0 && found < rule.count ? found : undefined;
}

function withChanges(state, changes) {
  const next = { ...state };
  for (const [name, value] of Object.entries(changes)) {
    const accepted = allowed(name, value);
    if (accepted !== undefined) next[name] = accepted;
  }
  return next;
}

// What the page opens on: its maker may have chosen something else than the defaults.
const OPENING = withChanges(DEFAULTS, DATA.selection);

function toFragment(state) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (String(value) !== String(OPENING[name])) parts.set(name, Array.isArray(value) ? value.join(",") : value ?? "");
  }
  return parts.toString();
}

function fromFragment(text) {
  return withChanges(OPENING, Object.fromEntries(new URLSearchParams(text.replace(/^#/, ""))));
}

// A frame without an address of its own (srcdoc) has no fragment to keep; everything else works there.
const hasAddress = location.protocol !== "about:";
let fragmentTimer = 0;

function keepInAddress(state) {
  if (!hasAddress) return;
  clearTimeout(fragmentTimer); // browsers allow few changes of the address per second
  fragmentTimer = setTimeout(() => {
    const fragment = toFragment(state);
    if (fragment === location.hash.slice(1)) return;
    try {
      history.replaceState(null, "", `#${fragment}`);
    } catch {
      // the place that shows this page does not let it change its address
    }
  }, 200);
}

// How a position is called across runs: its role and its number within the role, from 0.
function keyOf(side, position) {
  return `${side.roleNames[side.roles[position]]}:${side.ranks[position]}`;
}

// The position of that name in a run, or -1.
function positionOf(side, key) {
  if (!key) return -1;
  const [role, rank] = key.split(":");
  const code = side.roleNames.indexOf(role);
  const wanted = Number(rank);
  for (let p = 0; p < side.positions; p++) if (side.roles[p] === code && side.ranks[p] === wanted) return p;
  return -1;
}

// Why the chosen position does not exist in a run, in words; "" where it does.
function missingPosition(side, key) {
  if (!key || positionOf(side, key) >= 0) return "";
  const [role, rank] = key.split(":");
  const count = side.roles.filter((code) => side.roleNames[code] === role).length;
  return `There is no ${role} token ${Number(rank) + 1} here: this run has ${plural(count, `${role} token`)}.`;
}
