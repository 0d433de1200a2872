// What was decided, kept in the browser. One entry of the storage for each example: a decision writes a few characters,
// and two windows with the same page do not undo each other's work.
const NOTHING = { choices: new Map(), done: false };
const PREFIX = `onepos-review:${document.body.dataset.fingerprint}:`;
const states = new Map();
const steps = []; // for undo: what each step changed, and where it was made

const stateOf = (example) => states.get(example) ?? NOTHING;
const choiceOf = (example, label) => stateOf(example).choices.get(label) ?? "open";

function isDecided(example) {
  const { choices, done } = stateOf(example);
  if (done || choices.size === 0) return done;
  const labels = suggestedLabels(example);
  return labels.length > 0 && labels.every((label) => choices.has(label));
}

function countDecided() {
  let number = 0;
  for (const example of states.keys()) number += isDecided(example) ? 1 : 0;
  return number;
}

// "d3+17-" reads: done, label 3 accepted, label 17 rejected.
function encode({ choices, done }) {
  const parts = Array.from(choices, ([label, choice]) => label + (choice === "accept" ? "+" : "-"));
  return (done ? "d" : "") + parts.join("");
}

function decode(text) {
  if (!/^d?(\d+[+-])*$/.test(text)) return NOTHING;
  const choices = new Map();
  for (const [, label, sign] of text.matchAll(/(\d+)([+-])/g)) {
    if (Number(label) < data.labels.length) choices.set(Number(label), sign === "+" ? "accept" : "reject");
  }
  return { choices, done: text.startsWith("d") };
}

function put(example, state) {
  if (state.done || state.choices.size) states.set(example, state);
  else states.delete(example);
}

function store(example) {
  const text = encode(stateOf(example));
  try {
    if (text) localStorage.setItem(PREFIX + example, text);
    else localStorage.removeItem(PREFIX + example);
  } catch {
    warn("This browser does not keep decisions (storage is off or full): save them as CSV before you close the page.");
  }
}

function restore() {
  try {
    for (let example = 0; example < SIZE; example++) {
      const text = localStorage.getItem(PREFIX + example);
      if (text) put(example, decode(text));
    }
  } catch {
    warn("This browser does not keep decisions (storage is off): save them as CSV before you close the page.");
  }
}

// One step that undo takes back as a whole: pairs of an example and its new state.
function apply(changes, at) {
  const before = changes.map(([example]) => [example, stateOf(example)]);
  steps.push({ before, at });
  if (byId("notice").dataset.kind === "success") byId("notice").hidden = true;
  for (const [example, state] of changes) {
    put(example, state);
    store(example);
  }
}

function takeBack() {
  const step = steps.pop();
  for (const [example, state] of step?.before ?? []) {
    put(example, state);
    store(example);
  }
  return step;
}

function withChoice(state, label, choice) {
  const choices = new Map(state.choices);
  if (choice === "open") choices.delete(label);
  else choices.set(label, choice);
  return { choices, done: state.done };
}

// A notice stays, unless it only reports what went well: then until the next step.
function warn(text, kind = "problem") {
  byId("notice").textContent = text;
  byId("notice").dataset.kind = kind;
  byId("notice").hidden = false;
}
