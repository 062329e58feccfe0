// Puts the page together and keeps all panels of all runs on one selection. Hovering previews, clicking chooses.

function announcement(view) {
  const parts = [`vision expert ${view.expert}, ${TERM_WORDS[view.term]}`, view.token === null ? "all output tokens" : `output token ${view.token + 1}`];
  if (view.position) {
    const found = SIDES.map((side) => positionOf(side, view.position)).findIndex((position) => position >= 0);
    if (found >= 0) parts.push(`token ${nameOf(SIDES[found], positionOf(SIDES[found], view.position))}`);
  }
  if (view.source !== null) parts.push(`patch ${view.source + 1}`);
  if (view.layer !== null) parts.push(`layer ${layerName(SIDES[0], view.layer)}`);
  if (view.lora !== null) parts.push(`LoRA expert ${view.lora + 1}`);
  return parts.join(", ");
}

const FIRST = 2; // panels drawn before the first paint: the picture and the text

function makeSideElement(side, app) {
  const panels = [makePicture, makeWords, makeTokens, makeDetails, makeRibbon, makeNumbers].map((build) => build(side, app));
  const heading = make("h2", {}, make("bdi", { className: "run" }, side.name));
  const element = make("section", { className: "side", "aria-label": `Run: ${side.name}` }, heading, make("div", { className: "panels" }, panels.map((panel) => panel.element)));
  return { element, panels, picture: panels[0], details: panels[3], ribbon: panels[4] };
}

function startPage() {
  let state = fromFragment(hasAddress ? location.hash : "");
  let hovered = {};
  let waiting = 0;
  let sides = [];
  let controls = null;
  const live = make("p", { className: "live", role: "status", "aria-live": "polite" });

  function render(count = Infinity) {
    cancelAnimationFrame(waiting);
    waiting = 0;
    const view = withChanges(state, hovered);
    document.documentElement.dataset.theme = isDark(view) ? "dark" : "light";
    for (const side of sides) for (const panel of side.panels.slice(0, count)) panel.update(view);
    controls.update(state);
  }
  const app = {
    chosen: () => state,
    select(changes) {
      state = withChanges(state, changes);
      hovered = {};
      keepInAddress(state);
      setText(live, announcement(state));
      render();
    },
    hover(changes) {
      if (JSON.stringify(changes) === JSON.stringify(hovered)) return;
      hovered = changes;
      if (!waiting) waiting = requestAnimationFrame(() => render());
    },
  };
  controls = makeControls(app);
  const help = makeHelp();
  sides = SIDES.map((side) => makeSideElement(side, app));
  const theme = segmented(app, "Theme", "theme", CHOICES.theme);
  const bar = make("header", {},
    make("h1", {}, "LEO viewer"), theme.element,
    make("button", { type: "button", className: "help", "aria-label": "Keys (?)", onclick: () => help.showModal() }, "? Keys"));
  controls = ((own) => ({ element: own.element, update: (view) => { own.update(view); theme.update(view); } }))(controls);
  document.title = `${SIDES.map((side) => side.question || side.name).join(" | ")} - LEO viewer`;
  document.body.append(bar, controls.element, make("main", { className: SIDES.length > 1 ? "two" : "one" }, sides.map((side) => side.element)), live, help);
  listenToKeys(app, help);
  window.addEventListener("hashchange", () => {
    state = fromFragment(location.hash);
    render();
  });
  prefersDark.addEventListener("change", () => render());
  render(FIRST);
  requestAnimationFrame(() => setTimeout(() => render())); // the rest once the first panels are on the screen
  Object.defineProperty(window, "leo", {
    value: Object.freeze({
      state: () => ({ ...withChanges(state, hovered) }),
      choices: () => Object.fromEntries(Object.entries(CHOICES).map(([name, rule]) => [name, Array.isArray(rule) ? rule : rule.count ?? null])),
      positions: () => SIDES.map((side) => Array.from({ length: side.positions }, (_, p) => keyOf(side, p))),
      select: (changes) => app.select(changes),
      shown: () => sides.map((side) => ({ picture: side.picture.shown(), routing: side.ribbon.shown(), details: side.details.text() })),
    }),
  });
}

startPage();
