// What a person can do, by mouse or key. Every action ends with the page showing the new state.
const openInSet = (example) => suggestionsOf(example)
  .filter(({ label, inSet }) => inSet && choiceOf(example, label) === "open")
  .map(({ label }) => label);

const isEmpty = () => document.body.classList.contains("empty");

function drawAll() {
  const hadFocus = byId("decide").contains(document.activeElement);
  // The list first: it asks for sizes, which after other changes would cost a layout of everything.
  scrollToCurrent();
  drawList();
  drawExample();
  drawCounts();
  // The button in focus now means something else.
  if (hadFocus) byId("example-name").focus({ preventScroll: true });
}

function drawChange() {
  markChoices();
  drawList();
  drawCounts();
}

function tellCurrent() {
  const suggestions = plural(data.suggestions[current].length / 2, "suggestion");
  announce(`${byId("position").textContent}: ${headingOf(current)}, ${suggestions}, ${isDecided(current) ? "decided" : "open"}`);
}

function go(example) {
  const before = current;
  current = example;
  if (before !== example) dropFromView(before);
  drawAll();
  tellCurrent();
  if (before !== example) window.scrollTo(0, 0);
}

function move(by) {
  const place = view.indexOf(current);
  // An example outside the list (after undo): go on at its start.
  const target = place < 0 ? view[0] : view[Math.min(Math.max(place + by, 0), view.length - 1)];
  if (target !== undefined && target !== current) go(target);
  return target !== undefined && target !== current;
}

function goOn() {
  if (move(1)) return;
  // The last of the list: without it, if it no longer belongs there, the one before is the last.
  const place = view.indexOf(current);
  dropFromView(current);
  if (!view.includes(current) && view.length) current = view[Math.min(place, view.length - 1)];
  drawAll();
  announce(view.length ? "This is the last example of the list." : byId("example-name").textContent);
}

function toggle(label, choice) {
  const next = choiceOf(current, label) === choice ? "open" : choice;
  apply([[current, withChoice(stateOf(current), label, next)]], current);
  drawChange();
  announce(`${data.labels[label]}: ${next === "open" ? "open" : `${next}ed`}`);
}

function addLabel(label) {
  apply([[current, withChoice(stateOf(current), label, "accept")]], current);
  drawSuggestions();
  drawChange();
  announce(`${data.labels[label]}: added and accepted`);
}

function finish(accepted) {
  let state = stateOf(current);
  for (const label of accepted) state = withChoice(state, label, "accept");
  if (accepted.length || !state.done) apply([[current, { choices: state.choices, done: true }]], current);
  goOn();
}

const done = () => finish([]);
const acceptSet = () => finish(openInSet(current));

function reopen() {
  apply([[current, { choices: stateOf(current).choices, done: false }]], current);
  drawChange();
  announce("open again");
}

function undo() {
  const step = takeBack();
  if (!step) return announce("Nothing to undo.");
  current = step.at;
  computeView();
  drawAll();
  return announce(`Undone. ${headingOf(current)}`);
}

function forget() {
  apply(Array.from(states.keys(), (example) => [example, NOTHING]), current);
  refilter();
  announce("All decisions are forgotten; undo brings them back.");
}

// After a change of search, filter or order.
function refilter() {
  computeView();
  if (view.length && !view.includes(current)) current = view[0];
  byId("list").scrollTop = 0;
  drawAll();
}

async function load(file) {
  try {
    const { changes, rows, foreign } = fromCsv(await file.text());
    if (changes.length) apply(changes, current);
    refilter();
    drawSuggestions();
    const rest = foreign ? ` ${plural(foreign, "row")} about other examples or labels left out.` : "";
    warn(`${plural(rows, "decision")} loaded from ${file.name}.${rest}`, "success");
  } catch (error) {
    warn(`${file.name} was not loaded: ${error.message}`);
  }
}

function showHelp() {
  byId("help").showModal();
  byId("help-title").focus(); // and not the first control, which is at the end
}

// On a phone the list lies over the example.
function showSide(shown) {
  document.body.classList.toggle("listing", shown);
  if (shown) {
    scrollToCurrent();
    drawList();
    byId("list").focus();
  }
}
