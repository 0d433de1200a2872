"use strict";
// The review page: rows of a table, the labels suggested for each, and what a person decides about them.
// Texts of the data only ever become text nodes.

// ---- The data that the page was written with

const byId = (name) => document.getElementById(name);
const data = JSON.parse(byId("review-data").textContent);
const SIZE = data.ids.length;

const numbers = new Intl.NumberFormat("en");
const count = (number) => numbers.format(number);
const percent = (thousandths) => (thousandths < 5 ? "< 1 %" : `${Math.round(thousandths / 10)} %`);
const plural = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

// Titles and texts are lists, or the number of a column of the table.
const textOf = (source, row) => (typeof source === "number" ? data.features.rows[row][source] : source?.[row]) ?? "";
const headingOf = (row) => textOf(data.titles, row) || data.ids[row];

// Suggestions are stored flat: label, thousandths, label, thousandths, …, most probable first.
function suggestionsOf(row) {
  const flat = data.suggestions[row], result = [];
  for (let place = 0; place < flat.length; place += 2) {
    result.push({ label: flat[place], thousandths: flat[place + 1], suggested: data.sets[row].includes(flat[place]) });
  }
  return result;
}

function thousandthsOf(row, label) {
  const flat = data.suggestions[row];
  for (let place = 0; place < flat.length; place += 2) if (flat[place] === label) return flat[place + 1];
  return null;
}

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const oneLine = (text) => text.replace(/\s+/g, " ").trim();
// A number with more digits than a person reads.
const shortened = (cell) => (/^-?\d*\.\d{6,}$/.test(cell) ? String(Number(Number(cell).toPrecision(6))) : cell);
const shownCells = (row) => data.features?.shown.map((column) => shortened(data.features.rows[row][column])) ?? [];

function announce(text) {
  byId("status").textContent = text;
}

// A notice stays, unless it only reports what went well: then until the next step.
function warn(text, kind = "problem") {
  byId("notice").textContent = text;
  byId("notice").dataset.kind = kind;
  byId("notice").hidden = false;
}

// ---- Decisions, kept in the browser: one entry of its storage per row, so that two windows do not undo each other

const PREFIX = `onepos-review:${document.body.dataset.fingerprint}:`;
const [KEYS_OFF, ANNOTATOR] = ["onepos-review:keys-off", "onepos-review:annotator"];
// A mark is "", "done" or "complete"; in a complete row, what is not accepted is rejected. `by` is the annotator.
const NOTHING = { choices: new Map(), mark: "", by: "" };
const states = new Map();
const steps = []; // for undo: what each step changed, and where it was made

const stateOf = (row) => states.get(row) ?? NOTHING;
const isComplete = (row) => stateOf(row).mark === "complete";
// What a label is without a decision of its own.
const resting = (row, label, mark) => (data.given[row].includes(label) ? "accept" : mark === "complete" ? "reject" : "open");
const choiceOf = (row, label) => stateOf(row).choices.get(label) ?? resting(row, label, stateOf(row).mark);
const openSuggested = (row) => data.sets[row].filter((label) => choiceOf(row, label) === "open");
const acceptedIn = (row) => data.labels.flatMap((_, label) => (choiceOf(row, label) === "accept" ? [label] : []));

function isDecided(row) {
  const { choices, mark } = stateOf(row);
  if (mark || choices.size === 0) return mark !== "";
  const suggestions = suggestionsOf(row);
  return suggestions.length > 0 && suggestions.every(({ label }) => choices.has(label));
}

function withChoice(row, state, label, choice) {
  const choices = new Map(state.choices);
  if (choice === resting(row, label, state.mark)) choices.delete(label);
  else choices.set(label, choice);
  return { ...state, choices };
}

// "c3+17-|Ada" reads: complete, label 3 accepted, label 17 rejected, by Ada.
function encode({ choices, mark, by }) {
  const parts = Array.from(choices, ([label, choice]) => label + (choice === "accept" ? "+" : "-"));
  return mark.slice(0, 1) + parts.join("") + (by && `|${by}`);
}

function decode(text) {
  const [, mark, parts, by] = /^([dc]?)((?:\d+[+-])*)(?:\|(.*))?$/s.exec(text) ?? [];
  if (mark === undefined) return NOTHING;
  const choices = new Map();
  for (const [, label, sign] of parts.matchAll(/(\d+)([+-])/g)) {
    if (Number(label) < data.labels.length) choices.set(Number(label), sign === "+" ? "accept" : "reject");
  }
  return { choices, mark: { d: "done", c: "complete" }[mark] ?? "", by: by ?? "" };
}

function put(row, state) {
  if (state.mark || state.choices.size) states.set(row, state);
  else states.delete(row);
}

// The browser may refuse to store anything.
function inStorage(action) {
  try {
    return action(localStorage);
  } catch {
    warn("This browser does not keep decisions (storage is off or full): save them before you close the page.");
    return null;
  }
}

function store(row) {
  inStorage((storage) => (states.has(row) ? storage.setItem(PREFIX + row, encode(stateOf(row))) : storage.removeItem(PREFIX + row)));
}

function restore() {
  inStorage((storage) => {
    byId("keys-on").checked = storage.getItem(KEYS_OFF) === null;
    byId("annotator").value = storage.getItem(ANNOTATOR) ?? "";
    for (let row = 0; row < SIZE; row++) {
      const text = storage.getItem(PREFIX + row);
      if (text) put(row, decode(text));
    }
  });
}

const nameGiven = () => byId("annotator").value.trim();

// One step that undo takes back as a whole: pairs of a row and its new state.
function apply(changes, by = nameGiven()) {
  steps.push({ before: changes.map(([row]) => [row, stateOf(row)]), at: current });
  if (byId("notice").dataset.kind === "success") byId("notice").hidden = true;
  for (const [row, state] of changes) {
    put(row, { ...state, by: by ?? state.by });
    store(row);
  }
}

function takeBack() {
  const step = steps.pop();
  for (const [row, state] of step?.before ?? []) {
    put(row, state);
    store(row);
  }
  return step;
}

// ---- Files: decisions as CSV (RFC 4180) and back, and complete rows as a table

// Ids and labels are written as they are: a sign before "=" that keeps a spreadsheet from computing would change them.
const COLUMNS = ["id", "label", "decision", "annotator"];
const quoted = (field) => (/[",\r\n]|^\s|\s$/.test(field) ? `"${field.replaceAll('"', '""')}"` : field);
const csv = (records) => records.map((fields) => `${fields.map(quoted).join(",")}\r\n`).join("");
const inOrder = () => Array.from(states.keys()).sort((a, b) => a - b);

function decisionRecords() {
  return inOrder().flatMap((row) => {
    const { choices, mark } = stateOf(row), by = stateOf(row).by || nameGiven();
    const records = Array.from(choices, ([label, choice]) => [data.ids[row], data.labels[label], choice, by]);
    return mark ? [...records, [data.ids[row], "", mark, by]] : records;
  });
}

function saveDecisions() {
  const records = decisionRecords();
  const name = download(csv([COLUMNS, ...records]), "decisions");
  warn(`${plural(records.length, "decision")} about ${plural(states.size, "row")} saved as ${name} in your downloads.`, "success");
}

function saveComplete() {
  const { id, label, separator } = data.saved, rows = inOrder().filter(isComplete);
  const records = rows.map((row) => {
    const tags = acceptedIn(row).map((one) => data.labels[one]).join(separator);
    return [data.ids[row], ...(data.features?.rows[row] ?? []), tags];
  });
  const name = download(csv([[id, ...(data.features?.names ?? []), label], ...records]), "complete");
  warn(`${plural(rows.length, "complete row")} saved as ${name} in your downloads.`, "success");
}

function download(text, what) {
  const page = decodeURIComponent(location.pathname.split("/").pop()).replace(/\.html?$/i, "") || "review";
  const name = `${page}-${what}.csv`, address = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  make("a", { href: address, download: name }).click();
  // Not at once: the browser may still be about to read it.
  setTimeout(() => URL.revokeObjectURL(address), 60000);
  return name;
}

// Records with the line each starts on; a quoted field may span several lines.
function parseCsv(text) {
  const records = [];
  let fields = [], field = "", line = 1, start = 1, place = 0;
  const endRecord = () => {
    fields.push(field);
    if (fields.length > 1 || fields[0] !== "") records.push({ line: start, fields });
    [fields, field, start] = [[], "", line];
  };
  while (place < text.length) {
    const sign = text[place];
    if (sign === '"' && field === "") {
      const from = line;
      for (place++; ; place++) {
        if (place >= text.length) throw new Error(`line ${from}: a quotation mark is not closed`);
        if (text[place] === '"' && text[++place] !== '"') break;
        if (text[place] === "\n") line++;
        field += text[place];
      }
      if (place < text.length && !/[,\r\n]/.test(text[place])) {
        throw new Error(`line ${line}: text after a closing quotation mark`);
      }
      continue;
    }
    place++;
    if (sign === ",") {
      fields.push(field);
      field = "";
    } else if (sign === "\n" || sign === "\r") {
      if (sign === "\r" && text[place] === "\n") place++;
      line++;
      endRecord();
    } else {
      field += sign;
    }
  }
  if (field !== "" || fields.length) endRecord();
  return records;
}

// New states for the rows that the file decides, and how many decisions are about something that is not on this page.
function fromCsv(text) {
  const [header, ...records] = parseCsv(text.replace(/^\uFEFF/, ""));
  const width = header?.fields.length === 3 ? 3 : 4; // a file that was not written here may lack the annotator
  if (header?.fields.join() !== COLUMNS.slice(0, width).join()) throw new Error(`line 1: expected the header ${COLUMNS.join()}`);
  const rows = new Map(data.ids.map((id, row) => [id, row]));
  const labels = new Map(data.labels.map((name, label) => [name, label]));
  const changed = new Map();
  let foreign = 0;
  for (const { line, fields } of records) {
    if (fields.length !== width) throw new Error(`line ${line}: expected ${width} fields, got ${fields.length}`);
    const [id, name, decision, by = ""] = fields, whole = ["done", "complete"].includes(decision);
    if (!whole && !["accept", "reject"].includes(decision)) {
      throw new Error(`line ${line}: expected accept, reject, done or complete, got “${decision.slice(0, 40)}”`);
    }
    const row = rows.get(id), label = labels.get(name);
    if (row === undefined || (label === undefined && !whole)) {
      foreign++;
      continue;
    }
    const state = { ...(changed.get(row) ?? stateOf(row)), by };
    changed.set(row, whole ? { ...state, mark: decision } : withChoice(row, state, label, decision));
  }
  return { changes: Array.from(changed), read: records.length - foreign, foreign };
}

async function load(file) {
  try {
    const { changes, read, foreign } = fromCsv(await file.text());
    if (changes.length) apply(changes, null);
    refilter();
    const rest = foreign ? ` ${plural(foreign, "decision")} about other rows or labels left out.` : "";
    warn(`${plural(read, "decision")} loaded from ${file.name}.${rest}`, "success");
  } catch (error) {
    warn(`${file.name} was not loaded: ${error.message}`);
  }
}

// ---- The view: which rows are listed, and in which order

let view = [];
let current = 0;
let checked = -1; // the label that is checked row by row
let haystacks = null;

// Made when it is first needed: lower case of every text takes a moment.
function haystackOf(row) {
  haystacks ??= data.ids.map((id, each) => [
    id, ...data.given[each].map((label) => data.labels[label]), textOf(data.titles, each), textOf(data.texts, each), ...shownCells(each),
  ].join("\n").toLowerCase());
  return haystacks[row];
}

function fitsState(row) {
  const state = byId("state").value;
  if (state === "all") return true;
  if (state === "complete") return isComplete(row);
  return (state === "decided") === (checked < 0 ? isDecided(row) : choiceOf(row, checked) !== "open");
}

function makeFilter() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean), least = 10 * byId("from").value;
  return (row) => fitsState(row)
    && (checked < 0 || (thousandthsOf(row, checked) ?? -1) >= least)
    && words.every((word) => haystackOf(row).includes(word));
}

// Small comes first: the rows with something to accept, the most probable suggestion first.
function rank(row) {
  if (checked >= 0) return -thousandthsOf(row, checked);
  return -(data.suggestions[row][1] ?? 0) - (data.sets[row].length ? 1000 : 0);
}

function computeView() {
  checked = byId("label").value === "" ? -1 : Number(byId("label").value);
  view = data.ids.map((_, row) => row).filter(makeFilter());
  if (byId("sort").value === "order") return;
  const ranks = new Map(view.map((row) => [row, rank(row)]));
  view.sort((a, b) => ranks.get(a) - ranks.get(b));
}

// The row on show stays in the list while it is worked on, and leaves it afterwards.
function dropFromView(row) {
  const place = view.indexOf(row);
  if (place >= 0 && !fitsState(row)) view.splice(place, 1);
}

function fillLabels() {
  const uses = new Array(data.labels.length).fill(0);
  for (const flat of data.suggestions) for (let place = 0; place < flat.length; place += 2) uses[flat[place]]++;
  const order = new Intl.Collator(undefined, { numeric: true });
  const sorted = data.labels.map((name, label) => ({ name, label })).sort((a, b) => order.compare(a.name, b.name));
  for (const { name, label } of sorted) {
    if (uses[label]) byId("label").append(make("option", { value: label, textContent: `${name} (${count(uses[label])})` }));
    byId("add-labels").append(make("option", { value: oneLine(name) }));
  }
}

// ---- The list: only the rows in sight exist, so that 20,000 rows cost as much as fifty

const SPARE = 6; // rows beyond either edge, for smooth scrolling
const SIGNS = { accept: "✓", open: "+", reject: "✗" };
const STATES = { complete: "●", decided: "✓", begun: "◐", open: "○" };
const rowPool = [];
let rowHeight = 60;

function makeRow() {
  const part = (className) => make("span", { className, dir: "auto" });
  const row = make("div", { className: "row", role: "option" }, part("row-state"), part("row-name"), part("row-outcomes"));
  row.addEventListener("click", () => {
    showSide(false);
    go(Number(row.dataset.row));
  });
  return row;
}

const nameOfState = (row) => (isComplete(row) ? "complete" : isDecided(row) ? "decided" : stateOf(row).choices.size ? "begun" : "open");

// What became of a row: its given tags, labels accepted, suggestions still open, labels rejected.
function outcomesOf(row) {
  if (checked >= 0) return [{ choice: choiceOf(row, checked), text: percent(thousandthsOf(row, checked) ?? 0) }];
  const labels = new Set([...stateOf(row).choices.keys(), ...data.sets[row]]), order = Object.keys(SIGNS);
  const outcomes = Array.from(labels, (label) => ({ choice: choiceOf(row, label), text: data.labels[label] }));
  outcomes.sort((a, b) => order.indexOf(a.choice) - order.indexOf(b.choice));
  const given = data.given[row].filter((label) => !labels.has(label));
  return [...given.map((label) => ({ choice: "given", text: data.labels[label] })), ...outcomes];
}

function fillRow(element, place) {
  const row = view[place], state = nameOfState(row);
  // Most elements stay as they are from one key to the next.
  const content = [row, place, view.length, rowHeight, row === current, checked, encode(stateOf(row))].join();
  if (element.dataset.content === content) return;
  const [sign, name, outcomes] = element.children;
  element.hidden = false;
  element.id = `row-${row}`;
  Object.assign(element.dataset, { content, row, state });
  element.style.transform = `translateY(${place * rowHeight}px)`;
  element.setAttribute("aria-selected", String(row === current));
  element.setAttribute("aria-setsize", view.length);
  element.setAttribute("aria-posinset", place + 1);
  sign.textContent = STATES[state];
  sign.setAttribute("aria-label", state);
  name.textContent = headingOf(row);
  const words = (textOf(data.texts, row) || shownCells(row).filter(Boolean).slice(0, 8).join(" · ")).slice(0, 200);
  outcomes.replaceChildren(...outcomesOf(row).flatMap(({ choice, text }) => [
    make("span", { className: choice, textContent: choice === "given" || (checked >= 0 && choice === "open") ? text : `${SIGNS[choice]} ${text}` }), " "]), oneLine(words));
}

// Row numbers are shared out by remainder, so that scrolling by one row fills one element.
function drawList() {
  const box = byId("list"), size = box.clientHeight, top = box.scrollTop;
  const first = Math.max(0, Math.floor(top / rowHeight) - SPARE);
  const last = Math.min(view.length, Math.ceil((top + size) / rowHeight) + SPARE);
  const used = new Set();
  while (rowPool.length < last - first) rowPool.push(byId("rows").appendChild(makeRow()));
  for (let place = first; place < last; place++) {
    used.add(place % rowPool.length);
    fillRow(rowPool[place % rowPool.length], place);
  }
  rowPool.forEach((row, number) => {
    if (used.has(number)) return;
    row.hidden = true;
    row.removeAttribute("id");
    delete row.dataset.content;
  });
  // A screen reader may only be pointed to a row that exists.
  const place = view.indexOf(current);
  if (place >= first && place < last) box.setAttribute("aria-activedescendant", `row-${current}`);
  else box.removeAttribute("aria-activedescendant");
}

// Also gives the list its length: before that it could not scroll far enough.
function scrollToCurrent() {
  const box = byId("list"), rows = byId("rows"), height = `${view.length * rowHeight}px`;
  if (rows.style.height !== height) rows.style.height = height;
  const place = view.indexOf(current), size = box.clientHeight, top = place * rowHeight;
  if (place < 0) return;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + rowHeight > box.scrollTop + size) box.scrollTop = top + rowHeight - size;
}

function measureRows() {
  // Follows the reader's font size.
  rowHeight = Math.round(3.75 * parseFloat(getComputedStyle(document.documentElement).fontSize));
  byId("rows").style.setProperty("--row-height", `${rowHeight}px`);
}

function setText(name, text) {
  if (byId(name).textContent !== text) byId(name).textContent = text;
}

function drawCounts() {
  let decided = 0, complete = 0;
  for (const row of states.keys()) {
    decided += isDecided(row) ? 1 : 0;
    complete += isComplete(row) ? 1 : 0;
  }
  byId("progress").value = decided;
  setText("progress-text", `${count(decided)} of ${count(SIZE)} decided, ${count(complete)} complete`);
  setText("count", `${count(view.length)} of ${plural(SIZE, "row")} listed`);
  setText("save-complete", `Save ${plural(complete, "complete row")}`);
  byId("save-complete").disabled = complete === 0;
  byId("reset").hidden = view.length === SIZE && checked < 0;
  setText("empty-text", decided === SIZE ? "Every row is decided. Save the decisions." : "Change the search or the filters, or show all rows.");
  if (checked < 0) return;
  byId("bulk").disabled = bulkRows().length === 0;
  setText("bulk", `Accept “${data.labels[checked]}” in ${plural(bulkRows().length, "open row")} listed`);
}

// ---- The row on show, its given tag and its suggestions

const suggestionPool = []; // elements are made once and filled anew: going on stays quick
let labelsShown = []; // those given come first

function drawRow() {
  const empty = view.length === 0 && !makeFilter()(current);
  document.body.classList.toggle("empty", empty);
  document.body.classList.toggle("checking", checked >= 0);
  byId("row-name").textContent = empty ? "No row matches" : headingOf(current);
  byId("row-id").textContent = empty || data.titles === undefined ? "" : data.ids[current];
  byId("empty-text").hidden = !empty;
  byId("example").replaceChildren(...(empty ? [] : contentOf(current)));
  byId("content").scrollTop = 0;
  byId("decide").scrollTop = 0;
  if (!empty) drawSuggestions();
}

function contentOf(row) {
  const parts = [], text = textOf(data.texts, row), cells = shownCells(row);
  if (data.images?.[row]) parts.push(pictureOf(row));
  if (text) parts.push(make("div", { className: "text", dir: "auto", textContent: text }));
  if (cells.length) {
    const lines = cells.map((cell, place) => make("tr", {},
      make("th", { scope: "row", dir: "auto", textContent: data.features.names[data.features.shown[place]] }),
      make("td", { dir: "auto", textContent: cell || "–" })));
    parts.push(make("table", { className: "features" }, make("tbody", {}, ...lines)));
  }
  return parts.length ? parts : [make("p", { className: "soft", textContent: "This row has nothing to show but its name." })];
}

function pictureOf(row) {
  const path = data.images[row];
  const image = make("img", { src: path, alt: `Picture of ${headingOf(row)}`, decoding: "async" });
  const button = make("button", { type: "button", className: "picture", title: "Enlarge (z)", "aria-keyshortcuts": "z" }, image);
  button.addEventListener("click", zoom);
  image.addEventListener("error", () => {
    button.replaceWith(make("p", { className: "warning", textContent: `The picture could not be shown: ${path.slice(0, 200)}` }));
  });
  return button;
}

function drawSuggestions() {
  const given = data.given[current].map((label) => ({ label, thousandths: null }));
  const rows = [...given, ...suggestionsOf(current)];
  const known = new Set(rows.map(({ label }) => label));
  // Labels that were added by hand or came from a file stand below, without a probability.
  for (const label of stateOf(current).choices.keys()) if (!known.has(label)) rows.push({ label, thousandths: null });
  labelsShown = rows.map(({ label }) => label);
  while (suggestionPool.length < rows.length) suggestionPool.push(makeSuggestion(suggestionPool.length));
  suggestionPool.forEach((parts, place) => {
    parts.row.hidden = place >= rows.length;
    if (!parts.row.hidden) fillSuggestion(parts, rows[place], place < given.length ? -place : place - given.length + 1);
  });
  byId("no-tag").hidden = given.length > 0;
  byId("nothing").hidden = rows.length > given.length;
  byId("add").value = "";
  markChoices();
}

function makeSuggestion(place) {
  const fill = make("i"), tick = make("b");
  const parts = {
    fill, tick,
    name: make("span", { className: "name", dir: "auto" }),
    mark: make("span", { className: "set-mark" }),
    percent: make("span", { className: "percent" }),
    bar: make("span", { className: "bar", "aria-hidden": "true" }, fill, tick),
    accept: makeChoice(place, "accept"),
    reject: makeChoice(place, "reject"),
  };
  parts.choices = make("span", { className: "choices", role: "group" }, parts.accept, parts.reject);
  parts.number = make("kbd", { "aria-hidden": "true" });
  const about = make("span", { className: "about" }, parts.bar, parts.percent, parts.mark);
  parts.row = make("li", { className: "suggestion" }, parts.number, parts.name, about, parts.choices);
  byId("suggestions").append(parts.row);
  return parts;
}

function makeChoice(place, choice) {
  const button = make("button", { type: "button", className: choice },
    make("span", { className: "sign", "aria-hidden": "true", textContent: SIGNS[choice] }));
  button.addEventListener("click", (event) => {
    toggle(labelsShown[place], choice);
    // After a click with the mouse, Enter means “done”, not this button again.
    if (event.detail > 0) byId("pane").focus({ preventScroll: true });
  });
  return button;
}

// The key of the first given tag is 0; others have none, and are told by a negative number.
function fillSuggestion(parts, { label, thousandths, suggested }, key) {
  const name = data.labels[label], given = key <= 0, hasKey = key >= 0 && key <= 9;
  const mark = given ? "given tag" : suggested ? "suggested" : "", sure = given ? "" : thousandths === null ? "added" : percent(thousandths);
  const about = [name, sure, mark].filter(Boolean).join(", ");
  parts.row.classList.toggle("in-set", suggested === true);
  parts.row.classList.toggle("given", given);
  parts.row.classList.toggle("checked", label === checked);
  parts.mark.textContent = mark;
  parts.mark.hidden = mark === "";
  parts.name.textContent = name;
  parts.percent.textContent = sure;
  parts.bar.hidden = thousandths === null;
  parts.number.textContent = hasKey ? key : "";
  parts.accept.setAttribute("aria-keyshortcuts", hasKey ? key : "");
  parts.reject.setAttribute("aria-keyshortcuts", hasKey ? `Shift+${key}` : "");
  parts.fill.style.width = `${(thousandths ?? 0) / 10}%`;
  parts.tick.style.left = `${data.thresholds[label] / 10}%`;
  parts.bar.title = `The line is the threshold: ${percent(data.thresholds[label])}`;
  parts.choices.setAttribute("aria-label", name);
  parts.accept.setAttribute("aria-label", `Accept ${about}`);
  parts.reject.setAttribute("aria-label", `Reject ${about}`);
}

// What the decisions about the row on show change.
function markChoices() {
  labelsShown.forEach((label, place) => {
    const choice = choiceOf(current, label), { row, accept, reject } = suggestionPool[place];
    row.dataset.choice = choice;
    accept.setAttribute("aria-pressed", String(choice === "accept"));
    reject.setAttribute("aria-pressed", String(choice === "reject"));
  });
  const state = isComplete(current) ? "complete" : isDecided(current) ? "decided" : "open", place = view.indexOf(current);
  const open = openSuggested(current).length;
  byId("row-state").textContent = `${STATES[state]} ${state}`;
  byId("row-state").dataset.state = state;
  byId("position").textContent = place < 0 ? "not in the list" : `${count(place + 1)} of ${count(view.length)}`;
  byId("reopen").hidden = stateOf(current).mark === "";
  byId("undo").disabled = steps.length === 0;
  byId("accept-all-text").textContent = open ? `Accept ${count(open)} suggested, next` : "Nothing to accept, next";
  if (checked >= 0) byId("question-label").textContent = data.labels[checked];
}

// ---- Actions, by mouse or key. Each ends with the page showing the new state

function drawAll() {
  const hadFocus = byId("decide").contains(document.activeElement);
  // The list first: it asks for sizes, which after other changes would cost a layout of everything.
  scrollToCurrent();
  drawList();
  drawRow();
  drawCounts();
  // The button in focus now means something else.
  if (hadFocus) byId("row-name").focus({ preventScroll: true });
}

function drawChange() {
  markChoices();
  drawList();
  drawCounts();
}

function go(row) {
  const before = current;
  current = row;
  if (before !== row) dropFromView(before);
  drawAll();
  const suggestions = plural(data.suggestions[row].length / 2, "suggestion");
  announce(`${byId("position").textContent}: ${headingOf(row)}, ${suggestions}, ${isDecided(row) ? "decided" : "open"}`);
  if (before !== row) window.scrollTo(0, 0);
}

function move(by) {
  const place = view.indexOf(current);
  // A row outside the list (after undo): go on at its start.
  const target = place < 0 ? view[0] : view[Math.min(Math.max(place + by, 0), view.length - 1)];
  const moves = target !== undefined && target !== current;
  if (moves) go(target);
  return moves;
}

function goOn() {
  if (move(1)) return;
  // The last of the list: without it, if it no longer belongs there, the one before is the last.
  const place = view.indexOf(current);
  dropFromView(current);
  if (!view.includes(current) && view.length) current = view[Math.min(place, view.length - 1)];
  drawAll();
  announce(view.length ? "This is the last row of the list." : byId("row-name").textContent);
}

function toggle(label, choice) {
  const state = stateOf(current), next = choiceOf(current, label) === choice ? resting(current, label, state.mark) : choice;
  apply([[current, withChoice(current, state, label, next)]]);
  drawChange();
  announce(`${data.labels[label]}: ${next === "open" ? "open" : `${next}ed`}`);
}

function toggleByNumber(digit, rejects) {
  const given = data.given[current], label = digit === 0 ? given[0] : labelsShown[digit - 1 + given.length];
  if (label === undefined) announce(digit ? `There is no suggestion ${digit}.` : "This row has no given tag.");
  else toggle(label, rejects || digit === 0 ? "reject" : "accept");
}

function addLabel() {
  const typed = oneLine(byId("add").value).toLowerCase();
  const label = data.labels.findIndex((name) => oneLine(name).toLowerCase() === typed);
  if (label < 0) return typed && warn(`There is no label “${typed}”.`);
  apply([[current, withChoice(current, stateOf(current), label, "accept")]]);
  drawSuggestions();
  drawChange();
  byId("pane").focus({ preventScroll: true });
  return announce(`${data.labels[label]}: added and accepted`);
}

// Mark the row on show, and go on. A complete row stays complete, unless it is opened again.
function finish(mark, accepted = []) {
  let state = stateOf(current);
  for (const label of accepted) state = withChoice(current, state, label, "accept");
  const next = { ...state, mark: state.mark === "complete" ? "complete" : mark };
  if (accepted.length || next.mark !== state.mark) apply([[current, next]]);
  goOn();
}

const done = () => finish("done");
const acceptSuggested = () => finish("done", openSuggested(current));
const completeRow = () => finish("complete");

function reopen() {
  apply([[current, { ...stateOf(current), mark: "" }]]);
  drawSuggestions();
  drawChange();
  announce("open again");
}

// The answer to the question whether the checked label applies.
function answer(choice) {
  if (checked < 0) return announce("Choose a label to check first.");
  apply([[current, withChoice(current, stateOf(current), checked, choice)]]);
  return goOn();
}

const bulkRows = () => view.filter((row) => choiceOf(row, checked) === "open");

function acceptListed() {
  const rows = bulkRows(), name = data.labels[checked];
  apply(rows.map((row) => [row, withChoice(row, stateOf(row), checked, "accept")]));
  refilter();
  warn(`“${name}” accepted in ${plural(rows.length, "row")}. Undo takes all of it back.`, "success");
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
  apply(Array.from(states.keys(), (row) => [row, NOTHING]));
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

function resetControls() {
  const start = [["search", ""], ["state", "all"], ["sort", data.ordered ? "order" : "accept"], ["label", ""], ["from", 0]];
  for (const [name, value] of start) byId(name).value = value;
  byId("from-text").textContent = "0 %";
}

function zoom() {
  document.body.classList.toggle("zoomed", Boolean(data.images?.[current]) && !document.body.classList.contains("zoomed"));
}

function show(dialog, focus) {
  byId(dialog).showModal();
  byId(focus).focus(); // and not the first control
}

const showHelp = () => show("help", "help-title");
const showFiles = () => show("files", "save");

function closed(dialog, action) {
  byId(dialog).close();
  byId("pane").focus({ preventScroll: true }); // now; browsers take the focus from a hidden field only later
  action?.();
}

// On a phone the list lies over the row.
function showSide(shown) {
  document.body.classList.toggle("listing", shown);
  if (shown) {
    scrollToCurrent();
    drawList();
    byId("list").focus();
  }
}

// ---- Keys work wherever the focus is, but in a field they belong to the field

const BY_KEY = {
  j: () => move(1), ArrowDown: () => move(1), ArrowRight: () => move(1),
  k: () => move(-1), ArrowUp: () => move(-1), ArrowLeft: () => move(-1),
  a: acceptSuggested, x: completeRow, Enter: done, u: undo, z: zoom,
  y: () => answer("accept"), n: () => answer("reject"),
  s: showFiles, l: () => byId("label").focus(), o: () => byId("add").focus(), "/": () => byId("search").select(), "?": showHelp,
};
const IN_LIST = { Home: () => move(-SIZE), End: () => move(SIZE), PageDown: () => move(10), PageUp: () => move(-10) };
// Held down, these would decide one row after the other.
const DECIDING = new Set(["a", "x", "y", "n", "Enter"]);

function belongsToField(event) {
  const field = event.target.closest?.("input, select, textarea, button, a, summary");
  if (!field) return false;
  if (field.matches("input[type=range]")) return /^(Arrow|Home|End|Page)/.test(event.key);
  if (field.matches("input[type=checkbox], button, a, summary")) return event.key === "Enter";
  return true;
}

// By position on the keyboard: with Shift the key itself is another sign, and on some keyboards without it too.
function digitOf(event) {
  const digit = /^(?:Digit|Numpad)([0-9])$/.exec(event.code)?.[1] ?? /^[0-9]$/.exec(event.key)?.[0];
  return digit && !/^[a-z/?]$/i.test(event.key) ? Number(digit) : null;
}

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
  const dialog = document.querySelector("dialog[open]");
  if (event.key === "Escape") {
    event.preventDefault(); // some browsers would empty the search field, or close the dialog only after the next key
    if (dialog) closed(dialog.id);
    else leaveField();
    return;
  }
  if (dialog) return;
  if (belongsToField(event)) return;
  const plain = event.key.length === 1;
  if (plain && !byId("keys-on").checked) return;
  const key = plain ? event.key.toLowerCase() : event.key, digit = digitOf(event);
  const action = digit === null
    ? BY_KEY[key] ?? (event.target.id === "list" ? IN_LIST[key] : undefined)
    : () => toggleByNumber(digit, event.shiftKey);
  if (!action) return;
  event.preventDefault();
  const decides = digit !== null || DECIDING.has(key);
  if ((decides || key === "u") && event.repeat) return;
  if (decides && document.body.classList.contains("empty")) return;
  action();
}

function leaveField() {
  showSide(false);
  document.body.classList.remove("zoomed");
  if (document.activeElement?.matches("input, select")) byId("pane").focus({ preventScroll: true });
}

// ---- Connects the elements with the actions and shows the first open row

function onClick(name, action) {
  byId(name).addEventListener("click", (event) => {
    action();
    if (event.detail > 0 && byId(name).closest("#actions") && name !== "list-open") byId("pane").focus({ preventScroll: true });
  });
}

function connectControls() {
  let pause = 0;
  byId("search").addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(refilter, 80);
  });
  byId("search").addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    clearTimeout(pause);
    refilter();
    leaveField();
  });
  byId("from").addEventListener("input", () => {
    byId("from-text").textContent = `${byId("from").value} %`;
    refilter();
  });
  for (const name of ["state", "sort", "label"]) {
    byId(name).addEventListener("change", () => {
      refilter();
      // Whoever chose goes on with keys, which the field would take for a search.
      if (!document.body.classList.contains("listing")) byId("pane").focus({ preventScroll: true });
    });
  }
}

function connect() {
  const actions = {
    previous: () => move(-1), next: () => move(1), undo, reopen, "accept-all": acceptSuggested, only: completeRow, done,
    yes: () => answer("accept"), no: () => answer("reject"), bulk: acceptListed,
    "list-open": () => showSide(true), "list-close": () => showSide(false), reset: () => { resetControls(); refilter(); },
    "files-button": showFiles, "files-close": () => closed("files"), load: () => closed("files", () => byId("load-file").click()),
    save: () => closed("files", saveDecisions), "save-complete": () => closed("files", saveComplete),
    "help-button": showHelp, "help-close": () => closed("help"), forget: () => closed("help", forget),
  };
  for (const [name, action] of Object.entries(actions)) onClick(name, action);
  byId("load-file").addEventListener("change", async () => {
    const [file] = byId("load-file").files;
    if (file) await load(file);
    byId("load-file").value = ""; // the same file can be chosen again
  });
  byId("annotator").addEventListener("change", () => inStorage((storage) => storage.setItem(ANNOTATOR, byId("annotator").value)));
  byId("keys-on").addEventListener("change", () => inStorage((storage) => (
    byId("keys-on").checked ? storage.removeItem(KEYS_OFF) : storage.setItem(KEYS_OFF, "1"))));
  byId("add").addEventListener("change", addLabel);
  byId("list").addEventListener("scroll", drawList, { passive: true });
  document.addEventListener("keydown", onKey);
  window.addEventListener("resize", () => { measureRows(); drawList(); });
  // Another window with this page has decided something.
  window.addEventListener("storage", (event) => {
    if (!event.key?.startsWith(PREFIX)) return;
    const row = Number(event.key.slice(PREFIX.length));
    if (Number.isInteger(row) && row < SIZE) put(row, decode(event.newValue ?? ""));
    drawSuggestions();
    drawChange();
  });
}

restore();
fillLabels();
resetControls(); // a browser may bring back earlier choices when the page is loaded again
connectControls();
connect();
measureRows();
computeView();
current = view.find((row) => !isDecided(row)) ?? 0;
drawAll();
performance.mark("review-ready");
