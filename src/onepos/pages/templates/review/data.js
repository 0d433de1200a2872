// The data that the page was written with, and how to build elements from it. Texts only ever become text nodes.
const byId = (name) => document.getElementById(name);
const data = JSON.parse(byId("review-data").textContent);
const SIZE = data.ids.length;

const numbers = new Intl.NumberFormat("en");
const count = (number) => numbers.format(number);
const percent = (thousandths) => (thousandths < 5 ? "< 1 %" : `${Math.round(thousandths / 10)} %`);
const plural = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

// Suggestions are stored flat: label, thousandths, label, thousandths, …, best first.
const suggestedLabels = (example) => data.suggestions[example].filter((_, place) => place % 2 === 0);
const headingOf = (example) => data.titles?.[example] || data.ids[example];

function suggestionsOf(example) {
  const flat = data.suggestions[example], result = [];
  for (let place = 0; place < flat.length; place += 2) {
    result.push({ label: flat[place], thousandths: flat[place + 1], inSet: data.sets[example].includes(flat[place]) });
  }
  return result;
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

// A short text for the list.
function excerptOf(example) {
  const features = data.features?.rows[example].filter(Boolean).slice(0, 8).join(" · ");
  const given = data.given[example] < 0 ? "" : `given: ${data.labels[data.given[example]]}`;
  const text = data.texts?.[example] || features || given;
  return text.slice(0, 200).replace(/\s+/g, " ").trim();
}

function announce(text) {
  byId("status").textContent = text;
}
