// Which examples are listed, and in which order. `view` holds their numbers.
let view = [];
let current = 0;
let haystacks = null;

const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

// Made when it is first needed: lower case of every text takes a moment.
function haystackOf(example) {
  haystacks ??= data.ids.map((id, each) => {
    const given = data.given[each] < 0 ? "" : data.labels[data.given[each]];
    return [id, data.titles?.[each] ?? "", given, data.texts?.[each] ?? "", ...(data.features?.rows[each] ?? [])].join("\n").toLowerCase();
  });
  return haystacks[example];
}

function readControls() {
  const from = 10 * byId("from").value, to = 10 * byId("to").value;
  return {
    state: byId("state").value,
    sort: byId("sort").value,
    label: byId("label").value === "" ? -1 : Number(byId("label").value),
    // The sliders may have passed each other.
    low: Math.min(from, to),
    high: Math.max(from, to),
    words: wordsOf(byId("search").value),
  };
}

const fitsState = (example, state) => state === "all" || (state === "decided") === isDecided(example);

// Whether some suggestion, of the wanted label if one is chosen, lies in the range.
function fitsSuggestions(example, { label, low, high }) {
  if (label < 0 && low === 0 && high === 1000) return true;
  const flat = data.suggestions[example];
  for (let place = 0; place < flat.length; place += 2) {
    if ((label < 0 || flat[place] === label) && flat[place + 1] >= low && flat[place + 1] <= high) return true;
  }
  return false;
}

function fits(example, controls) {
  return fitsState(example, controls.state) && fitsSuggestions(example, controls)
    && (controls.words.length === 0 || controls.words.every((word) => haystackOf(example).includes(word)));
}

// Small comes first. With a label chosen, only this label counts.
function rank(example, { sort, label }) {
  if (sort === "worth" && label < 0) return -data.worth[example];
  const flat = data.suggestions[example];
  let best = Infinity;
  for (let place = 0; place < flat.length; place += 2) {
    if (label >= 0 && flat[place] !== label) continue;
    const value = sort === "confidence" ? -flat[place + 1] : Math.abs(flat[place + 1] - data.thresholds[flat[place]]);
    best = Math.min(best, value);
  }
  return best;
}

function computeView() {
  const controls = readControls();
  view = data.ids.map((_, example) => example).filter((example) => fits(example, controls));
  if (controls.sort !== "order") {
    const ranks = new Map(view.map((example) => [example, rank(example, controls)]));
    // Two examples without suggestions are equal: Infinity - Infinity is no number.
    view.sort((a, b) => (ranks.get(a) - ranks.get(b)) || 0);
  }
}

// The example that is on show stays in the list while it is worked on, and leaves it afterwards.
function dropFromView(example) {
  const place = view.indexOf(example);
  if (place >= 0 && !fitsState(example, byId("state").value)) view.splice(place, 1);
}

function fillLabelFilter() {
  const uses = new Array(data.labels.length).fill(0);
  for (let example = 0; example < SIZE; example++) for (const label of suggestedLabels(example)) uses[label]++;
  const options = data.labels.map((name, label) => ({ name, label, number: uses[label] }));
  const order = new Intl.Collator(undefined, { numeric: true });
  options.sort((a, b) => order.compare(a.name, b.name));
  for (const { name, label, number } of options) {
    if (number) byId("label").append(make("option", { value: label, textContent: `${name} (${count(number)})` }));
  }
}
