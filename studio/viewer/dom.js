// Elements. Text always goes in as text nodes: nothing from a trace is ever read as HTML.

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && !name.includes("-") && name !== "role") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

// A card with a heading. `panel.body` is where its content goes.
function card(kind, title) {
  const heading = make("h3", {}, title);
  const body = make("div", { className: "body" });
  const panel = make("section", { className: `card ${kind}`, "aria-label": title }, heading, body);
  return Object.assign(panel, { heading, body });
}

// An element without height whose width is watched: what is drawn below it can change its own height without being heard.
function ruler(onWidth) {
  const element = make("div", { className: "ruler", "aria-hidden": "true" });
  new ResizeObserver((entries) => onWidth(entries[entries.length - 1].contentRect.width)).observe(element);
  return element;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// A table with a header row; cells are texts or elements, the first of each row is its header.
function tableElement(caption, head, rows) {
  const table = make(
    "div",
    { className: "scrollable", tabIndex: 0, role: "region", "aria-label": caption },
    make(
      "table",
      { "aria-label": caption },
      make("thead", {}, make("tr", {}, head.map((cell) => make("th", { scope: "col" }, cell)))),
      make("tbody", {}, rows.map((row) => make("tr", {}, make("th", { scope: "row" }, row[0]), row.slice(1).map((cell) => make("td", {}, cell))))),
    ),
  );
  return make("div", { className: "table" }, make("p", { className: "caption" }, caption), table); // only the numbers scroll sideways
}

// A labelled bar, 0..1.
function barRow(label, share, text, marked = false) {
  const fill = make("span", { className: "fill" });
  fill.style.width = `${Math.min(Math.max(share, 0), 1) * 100}%`;
  return make(
    "li",
    { className: marked ? "bar marked" : "bar" },
    label instanceof Node ? label : make("bdi", { className: "name" }, label),
    make("span", { className: "track", "aria-hidden": "true" }, fill),
    make("span", { className: "value" }, text),
  );
}

function percent(value) {
  if (!Number.isFinite(value)) return "not evaluated";
  if (value === 0) return "0 %";
  const hundred = value * 100;
  return `${hundred >= 9.95 ? hundred.toFixed(1) : Number(hundred.toPrecision(2))} %`;
}

function number(value, digits = 3) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(digits))) : "not evaluated";
}

function plural(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}
