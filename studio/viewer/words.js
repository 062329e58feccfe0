// The run as text: every position a button of its own with its exact bytes, grouped by role; the plain answer above.

function makeWords(side, app) {
  const panel = card("words", "Question and answer");
  const list = make("div", {
    className: "segments", tabIndex: 0, role: "listbox", "aria-label": "Tokens of prompt and answer: arrow keys move, Escape lets go",
  });
  const said = make("p", { className: "said", dir: "auto" }, side.answer || "(empty answer)");
  const asked = make("p", { className: "asked", dir: "auto" }, side.question);
  const note = side.finished ? null : make("p", { className: "notice" }, "The answer was ended before the model's own end mark.");
  panel.body.append(asked, said, ...(note ? [note] : []), list);
  const chips = new Array(side.positions);
  for (const segment of segmentsOf(side)) list.append(segmentElement(side, segment, chips));
  let marked = [];
  let dimKey = "";
  let inkKey = "";

  function update(view) {
    const own = positionOf(side, view.position);
    const route = own < 0 ? -1 : routePosition(side, view, own);
    for (const chip of marked) chip.classList.remove("chosen", "route", "user");
    for (const chip of marked) chip.removeAttribute("aria-selected");
    marked = [];
    const mark = (position, kind) => {
      if (position < 0 || position >= side.positions) return;
      chips[position].classList.add(kind);
      marked.push(chips[position]);
    };
    mark(own, "chosen");
    if (own >= 0) chips[own].setAttribute("aria-selected", "true");
    if (route !== own) mark(route, "route");
    if (view.token !== null) mark(positionOfVisual(side, view.picture, view.token), "user");
    list.setAttribute("aria-activedescendant", own < 0 ? "" : chips[own].id);
    const dims = `${view.phase} ${view.hidden}`;
    if (dims !== dimKey) chips.forEach((chip, p) => chip.classList.toggle("dim", !isShown(side, view, p)));
    dimKey = dims;
    const inks = `${view.layer} ${view.lora} ${isDark(view)}`;
    if (inks !== inkKey) colourChips(side, view, chips);
    inkKey = inks;
  }

  const at = (event) => {
    const chip = event.target.closest ? event.target.closest(".chip") : null;
    return chip ? Number(chip.dataset.position) : -1;
  };
  list.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const position = at(event);
    app.hover(position < 0 ? {} : hoverOf(side, position));
  });
  list.addEventListener("pointerleave", () => app.hover({}));
  list.addEventListener("click", (event) => {
    const position = at(event);
    if (position >= 0) choosePosition(side, app, position);
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[event.key];
    const end = { Home: 0, End: side.positions - 1 }[event.key];
    if (step === undefined && end === undefined) return;
    event.preventDefault();
    const now = positionOf(side, app.chosen().position);
    const next = end ?? (now < 0 ? side.promptLength % side.positions : now + step);
    if (next < 0 || next >= side.positions) return;
    choosePosition(side, app, next, true);
    chips[next].scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  return { element: panel, update };
}

// A picture's position is an output token too: both are chosen together. keep: choosing it again does not let it go.
function choosePosition(side, app, position, keep = false, more = {}) {
  const token = visualToken(side, position);
  if (!keep && app.chosen().position === keyOf(side, position)) return app.select({ position: null, ...(token >= 0 ? { token: null } : {}) });
  app.select({ ...hoverOf(side, position), ...more });
}

function hoverOf(side, position) {
  const token = visualToken(side, position);
  return { position: keyOf(side, position), ...(token >= 0 ? { token, picture: side.pictureOf[position] } : {}) };
}

function segmentElement(side, segment, chips) {
  const role = side.roleNames[segment.role];
  const label = role === "picture" ? `picture ${segment.picture + 1}: ${plural(segment.end - segment.start, "output token")}` : role;
  const line = make("div", { className: "line", dir: role === "picture" ? "ltr" : directionOf(segmentText(side, segment)) });
  const ties = role === "picture" ? [] : tiesOf(side, segment);
  let holder = line;
  for (let p = segment.start; p < segment.end; p++) {
    const tie = ties.find((one) => one.start === p);
    if (tie) {
      holder = make("span", { className: "tie", role: "group", "aria-label": `together ${tie.text}` });
      line.append(holder);
    }
    chips[p] = chipElement(side, p);
    holder.append(chips[p]);
    const ended = ties.find((one) => one.end === p + 1);
    if (ended) {
      holder.append(make("bdi", { className: "joined", title: "what these bytes make together" }, ended.text));
      holder = line;
    }
    if (holder === line && side.labels[p].includes("⏎") && p + 1 < segment.end) line.append(make("span", { className: "newline", "aria-hidden": "true" }));
  }
  const element = make("div", { className: `segment role-${role}`, role: "group", "aria-label": label }, make("span", { className: "role" }, label), line);
  element.style.setProperty("--role", roleColour(role));
  return element;
}

function chipElement(side, position) {
  const visual = visualToken(side, position);
  const text = visual >= 0 ? String(visual + 1) : side.labels[position];
  const chip = make("span", {
    className: "chip", id: `side${side.index}-token${position}`, role: "option", "aria-label": `${nameOf(side, position)}, ${side.roleNames[side.roles[position]]}`,
  }, make("bdi", {}, text));
  chip.dataset.position = String(position);
  if (!wasRead(side, position)) chip.classList.add("unread");
  const token = answerToken(side, position);
  if (token >= 0) chip.title = `probability ${percent(side.chosen[token])}`;
  return chip;
}

// With a layer chosen, the line under each token is the LoRA expert that its position used there.
function colourChips(side, view, chips) {
  chips.forEach((chip, position) => {
    const expert = leaderAt(side, view, position);
    chip.style.setProperty("--expert", expert >= 0 ? category(expert, view) : "transparent");
    const wanted = view.lora !== null && view.layer !== null && view.layer < side.layerCount && view.lora < side.routedCount && !side.routeTrouble;
    chip.classList.toggle("fires", wanted && routeValue(side, "coefficient", view.layer, position, view.lora) > 0);
  });
}
