// The switches above the panels. Each speaks one name of the selection, so that address, keys and tests speak it too.

const OPTION_WORDS = {
  term: { weights: "weights", query: "QUERY", self: "SELF", cross: "CROSS", text: "TEXT" },
  range: { map: "each map", all: "one for all" },
  quantity: { probability: "probability", coefficient: "coefficient", norm: "norm" },
  phase: { all: "all", prompt: "prompt", answer: "answer" },
  route: { predicted: "predicted it", reads: "reads it" },
  theme: { auto: "auto", light: "light", dark: "dark" },
};

function makeControls(app) {
  const parts = [];
  const add = (part) => {
    parts.push(part);
    return part.element;
  };
  const pick = (label, name, options = CHOICES[name]) => add(segmented(app, label, name, options));
  const list = (label, name, none, word) => add(dropdown(app, label, name, none, word));
  const picture = make("fieldset", { className: "group" }, make("legend", {}, "Picture"),
    CHOICES.expert.length ? pick("Vision expert", "expert") : null,
    CHOICES.picture.length > 1 ? list("Picture", "picture", null, (i) => String(i + 1)) : null,
    pick("Show", "term"),
    list("Output token", "token", "all", (i) => String(i + 1)),
    pick("Colour scale", "range"),
    add(dropdown(app, "Colours", "scale", null, (name) => SCALES[name].label, CHOICES.scale)),
    add(slider(app, "Opacity", "opacity")),
  );
  const routing = make("fieldset", { className: "group" }, make("legend", {}, "Routing"),
    list("Layer", "layer", "none", (i) => layerName(SIDES.find((side) => i < side.layerCount), i)),
    list("Fires LoRA expert", "lora", "none", (i) => String(i + 1)),
    pick("Quantity", "quantity"),
    list("Colour by", "colour", "leading expert", (i) => `expert ${i + 1}`),
    pick("Phase", "phase"),
    pick("Answer token: position that", "route"),
    add(roleSwitches(app)),
  );
  const element = make("details", { className: "controls", open: window.innerWidth > 700 }, make("summary", {}, "Switches"), make("div", { className: "groups" }, picture, routing));
  return { element, update: (view) => parts.forEach((part) => part.update(view)) };
}

let controlCount = 0;

function segmented(app, label, name, options) {
  const group = `control${controlCount++}`;
  const inputs = options.map((value) => make("input", { type: "radio", name: group, value: String(value), onchange: () => app.select({ [name]: value }) }));
  const buttons = inputs.map((input, i) => make("label", {}, input, make("span", {}, (OPTION_WORDS[name] || {})[options[i]] || String(options[i]))));
  const element = make("div", { className: "control", role: "radiogroup", "aria-label": label }, make("span", { className: "label" }, label), make("span", { className: "segmented" }, buttons));
  return { element, update: (view) => inputs.forEach((input, i) => (input.checked = view[name] === options[i])) };
}

// none: the word for nothing chosen, or null where something always is.
function dropdown(app, label, name, none, word, options) {
  const values = options || (Array.isArray(CHOICES[name]) ? CHOICES[name] : Array.from({ length: CHOICES[name].count }, (_, i) => i));
  const select = make("select", { onchange: () => app.select({ [name]: select.value === "" ? null : select.value }) },
    none === null ? [] : make("option", { value: "" }, none),
    values.map((value) => make("option", { value: String(value) }, word(value))));
  const element = make("label", { className: "control" }, make("span", { className: "label" }, label), select);
  return { element, update: (view) => (select.value = view[name] === null ? "" : String(view[name])) };
}

function slider(app, label, name) {
  const input = make("input", { type: "range", min: "0", max: "1", step: "0.05", oninput: () => app.select({ [name]: Number(input.value) }) });
  const element = make("label", { className: "control" }, make("span", { className: "label" }, label), input);
  return { element, update: (view) => (input.value = String(view[name])) };
}

function roleSwitches(app) {
  const present = ROLES.filter((role, code) => SIDES.some((side) => side.roles.includes(code)));
  const boxes = present.map((role) => make("input", {
    type: "checkbox", value: role,
    onchange: (event) => {
      const hidden = app.chosen().hidden.filter((one) => one !== role);
      app.select({ hidden: event.target.checked ? hidden : [...hidden, role] });
    },
  }));
  const labels = boxes.map((box, i) => {
    const element = make("label", { className: "role-switch" }, box, make("span", {}, present[i]));
    element.style.setProperty("--role", roleColour(present[i]));
    return element;
  });
  const element = make("div", { className: "control", role: "group", "aria-label": "Token roles" }, make("span", { className: "label" }, "Token roles"), make("span", { className: "roles" }, labels));
  return { element, update: (view) => boxes.forEach((box, i) => (box.checked = !view.hidden.includes(present[i]))) };
}
