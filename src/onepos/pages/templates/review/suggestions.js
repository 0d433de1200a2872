// The suggestions of the example on show. Their elements are made once and filled anew: going on stays quick.
const suggestionPool = [];
const addOptions = []; // by label
let rowsShown = []; // labels in the order of the numbers
let notOffered = []; // labels that need no adding

function drawSuggestions() {
  const rows = suggestionsOf(current), known = new Set(rows.map((row) => row.label));
  // Labels that were added by hand or came from a file stand below, without a confidence.
  for (const label of stateOf(current).choices.keys()) if (!known.has(label)) rows.push({ label, thousandths: null });
  rowsShown = rows.map((row) => row.label);
  while (suggestionPool.length < rows.length) suggestionPool.push(makeSuggestion(suggestionPool.length));
  suggestionPool.forEach((parts, place) => {
    parts.row.hidden = place >= rows.length;
    if (place < rows.length) fillSuggestion(parts, rows[place]);
  });
  byId("nothing").hidden = rows.length > 0;
  offerOthers();
  markChoices();
}

function makeSuggestion(place) {
  const fill = make("i"), tick = make("b");
  const parts = {
    fill, tick,
    name: make("span", { className: "name", dir: "auto" }),
    mark: make("span", { className: "set-mark", textContent: "in the set" }),
    percent: make("span", { className: "percent" }),
    bar: make("span", { className: "bar", "aria-hidden": "true" }, fill, tick),
    accept: makeChoice(place, "accept", "✓"),
    reject: makeChoice(place, "reject", "✗"),
  };
  parts.choices = make("span", { className: "choices", role: "group" }, parts.accept, parts.reject);
  const number = make("kbd", { "aria-hidden": "true", textContent: place < 9 ? place + 1 : "" });
  parts.row = make("li", { className: "suggestion" }, number, parts.name, parts.mark, parts.percent, parts.bar, parts.choices);
  byId("suggestions").append(parts.row);
  return parts;
}

function makeChoice(place, choice, sign) {
  const button = make("button", { type: "button", className: choice },
    make("span", { className: "sign", "aria-hidden": "true", textContent: sign }));
  if (place < 9) button.setAttribute("aria-keyshortcuts", (choice === "reject" ? "Shift+" : "") + (place + 1));
  button.addEventListener("click", (event) => {
    toggle(rowsShown[place], choice);
    // After a click with the mouse, Enter means “done”, not this button again.
    if (event.detail > 0) byId("pane").focus({ preventScroll: true });
  });
  return button;
}

function fillSuggestion(parts, { label, thousandths, inSet }) {
  const name = data.labels[label], sure = thousandths === null ? "not suggested" : percent(thousandths);
  parts.row.classList.toggle("in-set", inSet === true);
  parts.mark.hidden = inSet !== true;
  parts.name.textContent = name;
  parts.percent.textContent = sure;
  parts.bar.classList.toggle("none", thousandths === null);
  parts.fill.style.width = `${(thousandths ?? 0) / 10}%`;
  parts.tick.style.left = `${data.thresholds[label] / 10}%`;
  parts.bar.title = `The line is the threshold: ${percent(data.thresholds[label])}`;
  parts.choices.setAttribute("aria-label", name);
  parts.accept.setAttribute("aria-label", `Accept ${name}, ${sure}${inSet ? ", in the set" : ""}`);
  parts.reject.setAttribute("aria-label", `Reject ${name}, ${sure}${inSet ? ", in the set" : ""}`);
}

function markChoices() {
  rowsShown.forEach((label, place) => {
    const choice = choiceOf(current, label), { row, accept, reject } = suggestionPool[place];
    row.dataset.choice = choice;
    accept.setAttribute("aria-pressed", String(choice === "accept"));
    reject.setAttribute("aria-pressed", String(choice === "reject"));
  });
  markState();
}

// The labels that are neither given nor on show can be added.
function offerOthers() {
  const offer = (label, offered) => { addOptions[label].hidden = addOptions[label].disabled = !offered; };
  for (const label of notOffered) offer(label, true);
  notOffered = data.given[current] < 0 ? rowsShown : [...rowsShown, data.given[current]];
  for (const label of notOffered) offer(label, false);
  byId("add").value = "";
}

function fillAddChoice() {
  data.labels.forEach((name, label) => addOptions.push(make("option", { value: label, textContent: name })));
  byId("add").append(...addOptions);
}
