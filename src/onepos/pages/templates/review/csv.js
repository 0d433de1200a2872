// Decisions as CSV (RFC 4180) and back. Ids and labels are written as they are: a sign put before "=" or "+" to keep a
// spreadsheet from computing would make the id another one.
const COLUMNS = ["id", "label", "decision"];

const quoted = (field) => (/[",\r\n]|^\s|\s$/.test(field) ? `"${field.replaceAll('"', '""')}"` : field);

function toCsv() {
  const lines = [COLUMNS.join(",")];
  for (const example of Array.from(states.keys()).sort((a, b) => a - b)) {
    for (const [label, choice] of stateOf(example).choices) {
      lines.push([data.ids[example], data.labels[label], choice].map(quoted).join(","));
    }
  }
  return `${lines.join("\r\n")}\r\n`;
}

// Records with the line each starts on; a quoted field may span several lines.
function parseCsv(text) {
  const records = [];
  let fields = [], field = "", line = 1, start = 1, place = 0;
  const endField = () => { fields.push(field); field = ""; };
  const endRecord = () => {
    endField();
    if (fields.length > 1 || fields[0] !== "") records.push({ line: start, fields });
    fields = [];
    start = line;
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
    } else if (sign === ",") {
      endField();
      place++;
    } else if (sign === "\n" || sign === "\r") {
      place += sign === "\r" && text[place + 1] === "\n" ? 2 : 1;
      line++;
      endRecord();
    } else {
      field += sign;
      place++;
    }
  }
  if (field !== "" || fields.length) endRecord();
  return records;
}

// New states for the examples that the file decides, and how many rows are about something that is not on this page.
function fromCsv(text) {
  const [header, ...records] = parseCsv(text.replace(/^\uFEFF/, ""));
  if (header?.fields.join() !== COLUMNS.join()) throw new Error(`line 1: expected the header ${COLUMNS.join()}`);
  const examples = new Map(data.ids.map((id, example) => [id, example]));
  const labels = new Map(data.labels.map((name, label) => [name, label]));
  const changed = new Map();
  let foreign = 0;
  for (const { line, fields } of records) {
    if (fields.length !== COLUMNS.length) throw new Error(`line ${line}: expected 3 fields, got ${fields.length}`);
    const [id, name, decision] = fields;
    if (decision !== "accept" && decision !== "reject") {
      throw new Error(`line ${line}: expected accept or reject, got “${decision.slice(0, 40)}”`);
    }
    const example = examples.get(id), label = labels.get(name);
    if (example === undefined || label === undefined || data.given[example] === label) foreign++;
    // Whoever saved the file has looked at the example: it counts as done.
    else changed.set(example, { ...withChoice(changed.get(example) ?? stateOf(example), label, decision), done: true });
  }
  return { changes: Array.from(changed), rows: records.length - foreign, foreign };
}

function download(text) {
  const name = decodeURIComponent(location.pathname.split("/").pop()).replace(/\.html?$/i, "") || "review";
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  const link = make("a", { href: address, download: `${name}-decisions.csv` });
  link.click();
  // Not at once: the browser may still be about to read it.
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}
