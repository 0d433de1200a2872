// The list: only the rows in sight exist, so that five thousand examples cost as much as fifty.
const SPARE = 6; // rows beyond either edge, for smooth scrolling
const rowPool = [];
let rowHeight = 60;

function makeRow() {
  const row = make("div", { className: "row", role: "option" },
    make("span", { className: "row-state" }),
    make("span", { className: "row-name", dir: "auto" }),
    make("span", { className: "row-set", dir: "auto" }),
    make("span", { className: "row-excerpt", dir: "auto" }));
  row.addEventListener("click", () => {
    showSide(false);
    go(Number(row.dataset.example));
  });
  return row;
}

function fillRow(row, place) {
  const example = view[place];
  const decided = isDecided(example), begun = !decided && stateOf(example).choices.size > 0;
  // Most rows stay as they are from one key to the next.
  const content = [example, place, view.length, rowHeight, decided, begun, example === current].join();
  if (row.dataset.content === content) return;
  row.dataset.content = content;
  const [state, name, set, excerpt] = row.children;
  row.hidden = false;
  row.id = `row-${example}`;
  row.dataset.example = example;
  row.dataset.state = decided ? "decided" : begun ? "begun" : "open";
  row.style.transform = `translateY(${place * rowHeight}px)`;
  row.setAttribute("aria-selected", String(example === current));
  row.setAttribute("aria-setsize", view.length);
  row.setAttribute("aria-posinset", place + 1);
  state.textContent = decided ? "✓" : begun ? "◐" : "○";
  state.setAttribute("aria-label", decided ? "decided" : begun ? "begun" : "open");
  name.textContent = headingOf(example);
  set.textContent = data.sets[example].map((label) => `+ ${data.labels[label]}`).join("  ");
  excerpt.textContent = excerptOf(example);
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

function drawCounts() {
  const decided = countDecided();
  byId("progress").value = decided;
  byId("progress-text").textContent = `${count(decided)} of ${count(SIZE)} decided`;
  const text = `${count(view.length)} of ${plural(SIZE, "example")} listed`;
  if (byId("count").textContent !== text) byId("count").textContent = text;
}
