// The example on show, its given label and its suggestions.
function drawExample() {
  const empty = view.length === 0 && !fits(current, readControls());
  document.body.classList.toggle("empty", empty);
  byId("example-name").textContent = empty ? "No example matches" : headingOf(current);
  byId("example-id").textContent = empty || !data.titles ? "" : data.ids[current];
  byId("example").replaceChildren(...(empty ? [make("p", { textContent: emptyText() })] : contentOf(current)));
  byId("content").scrollTop = 0;
  byId("decide").scrollTop = 0;
  if (empty) return;
  const given = data.given[current];
  byId("given").replaceChildren(...(given < 0
    ? ["No label was given."]
    : [make("span", { className: "mark given", textContent: "● given" }), " ", make("bdi", { textContent: data.labels[given] })]));
  drawSuggestions();
}

const emptyText = () => (countDecided() === SIZE
  ? "Every example is decided. Save the decisions as CSV."
  : "Change the search or the filters, or show all again.");

function contentOf(example) {
  const parts = [];
  if (data.images?.[example]) parts.push(pictureOf(example));
  if (data.texts) parts.push(make("div", { className: "text", dir: "auto", textContent: data.texts[example] }));
  if (data.features) parts.push(tableOf(example));
  if (!parts.length) parts.push(make("p", { className: "soft", textContent: "This example has nothing to show but its name." }));
  return parts;
}

function pictureOf(example) {
  const image = make("img", { src: data.images[example], alt: `Picture of ${headingOf(example)}`, decoding: "async" });
  image.addEventListener("error", () => {
    const path = data.images[example].slice(0, 200);
    image.replaceWith(make("p", { className: "warning", textContent: `The picture could not be shown: ${path}` }));
  });
  return image;
}

function tableOf(example) {
  const rows = data.features.names.map((name, column) => make("tr", {},
    make("th", { scope: "row", dir: "auto", textContent: name }),
    make("td", { dir: "auto", textContent: data.features.rows[example][column] || "–" })));
  return make("table", { className: "features" }, make("caption", { textContent: "Features" }), make("tbody", {}, ...rows));
}

// What the current example's decisions change outside its suggestions.
function markState() {
  const decided = isDecided(current), inSet = openInSet(current).length, place = view.indexOf(current);
  byId("example-state").textContent = decided ? "✓ decided" : "○ open";
  byId("example-state").dataset.state = decided ? "decided" : "open";
  byId("position").textContent = place < 0 ? "not in the list" : `${count(place + 1)} of ${count(view.length)}`;
  byId("reopen").hidden = !stateOf(current).done;
  byId("undo").disabled = steps.length === 0;
  byId("accept-all-text").textContent = inSet ? `Accept set (${inSet}), next` : "Set is done, next";
}
