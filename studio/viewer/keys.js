// Keys that work anywhere on the page, and the list of them.

const KEYS = [
  ["Tab", "to the next panel or switch"],
  ["arrow keys", "in a panel: move to the next patch, output token, token or cell"],
  ["Home, End", "first and last token of a panel"],
  ["A", "all output tokens together"],
  ["[ and ]", "previous and next output token"],
  [", and .", "previous and next answer token"],
  ["E and Shift+E", "next and previous vision expert"],
  ["T and Shift+T", "weights, then each score term"],
  ["L and Shift+L", "next and previous layer"],
  ["R", "route of the position that predicted an answer token, or that reads it"],
  ["D", "light or dark"],
  ["Escape", "let go of what is chosen"],
  ["?", "this list"],
];

function makeHelp() {
  const rows = KEYS.map(([key, what]) => [make("kbd", {}, key), what]);
  const close = make("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = make("dialog", { "aria-label": "Keys" }, make("h2", {}, "Keys"), make("dl", {}, rows.map(([key, what]) => [make("dt", {}, key), make("dd", {}, what)])), close);
  return dialog;
}

function stepped(name, by, state) {
  const rule = CHOICES[name];
  const values = Array.isArray(rule) ? rule : [null, ...Array.from({ length: rule.count }, (_, i) => i)];
  return values[(values.indexOf(state[name]) + by + values.length) % values.length];
}

// The next answer token of the longest answer on the page.
function steppedAnswer(by, state) {
  const count = Math.max(...SIDES.map((side) => side.positions - side.promptLength));
  if (!count) return null;
  const now = /^answer:(\d+)$/.exec(state.position || "");
  const next = now ? Number(now[1]) + by : by > 0 ? 0 : count - 1;
  return `answer:${Math.min(Math.max(next, 0), count - 1)}`;
}

function listenToKeys(app, help) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.key !== "Escape" && event.key !== "?") return;
    const state = app.chosen();
    const back = event.shiftKey ? -1 : 1;
    const actions = {
      "?": () => help.showModal(),
      Escape: () => app.select({ source: null, position: null, token: null, layer: null, lora: null }),
      a: () => app.select({ token: null }),
      "[": () => app.select({ token: stepped("token", -1, state) }),
      "]": () => app.select({ token: stepped("token", 1, state) }),
      ",": () => app.select({ position: steppedAnswer(-1, state) }),
      ".": () => app.select({ position: steppedAnswer(1, state) }),
      e: () => app.select({ expert: stepped("expert", back, state) }),
      t: () => app.select({ term: stepped("term", back, state) }),
      l: () => app.select({ layer: stepped("layer", back, state) }),
      r: () => app.select({ route: stepped("route", 1, state) }),
      d: () => app.select({ theme: isDark(state) ? "light" : "dark" }),
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
