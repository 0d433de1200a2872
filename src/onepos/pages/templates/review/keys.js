// Keys work wherever the focus is, but in a field they belong to the field.
const KEYS_OFF = `${PREFIX}keys-off`;
const OWN_KEYS = /^(Arrow|Home|End|Page)/;
const BY_KEY = {
  j: () => move(1), ArrowDown: () => move(1), ArrowRight: () => move(1),
  k: () => move(-1), ArrowUp: () => move(-1), ArrowLeft: () => move(-1),
  a: acceptSet, Enter: done, u: undo,
  "/": () => byId("search").select(), "?": showHelp,
};
const IN_LIST = { Home: () => move(-SIZE), End: () => move(SIZE), PageDown: () => move(10), PageUp: () => move(-10) };
// Held down, these would decide one example after the other.
const ONCE = new Set(["a", "Enter", "u"]);

function belongsToField(event) {
  const field = event.target.closest?.("input, select, textarea, button, a, summary");
  if (!field) return false;
  if (field.matches("input[type=range]")) return OWN_KEYS.test(event.key);
  if (field.matches("input[type=checkbox], button, a, summary")) return event.key === "Enter";
  return true;
}

// By position on the keyboard: with Shift the key itself is another sign, and on some keyboards without it too.
function digitOf(event) {
  const digit = /^(?:Digit|Numpad)([1-9])$/.exec(event.code)?.[1] ?? /^[1-9]$/.exec(event.key)?.[0];
  return digit ? Number(digit) : 0;
}

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || byId("help").open) return;
  if (event.key === "Escape") {
    event.preventDefault(); // some browsers would empty the search field
    leaveField();
    return;
  }
  if (belongsToField(event)) return;
  const plain = event.key.length === 1;
  if (plain && !byId("keys-on").checked) return;
  const key = plain ? event.key.toLowerCase() : event.key;
  const digit = digitOf(event);
  const action = digit && !/^[a-z/?]$/.test(key)
    ? () => decideByNumber(digit, event.shiftKey)
    : BY_KEY[key] ?? (event.target.id === "list" ? IN_LIST[key] : undefined);
  if (!action) return;
  event.preventDefault();
  if (event.repeat && (digit || ONCE.has(key))) return;
  if (isEmpty() && (digit || ["a", "Enter"].includes(key))) return;
  action();
}

function decideByNumber(digit, rejects) {
  const label = rowsShown[digit - 1];
  if (label === undefined) announce(`There is no suggestion ${digit}.`);
  else toggle(label, rejects ? "reject" : "accept");
}

function leaveField() {
  showSide(false);
  if (document.activeElement?.matches("input, select")) byId("pane").focus({ preventScroll: true });
}

function keepKeySetting() {
  try {
    byId("keys-on").checked = localStorage.getItem(KEYS_OFF) === null;
    byId("keys-on").addEventListener("change", () => {
      if (byId("keys-on").checked) localStorage.removeItem(KEYS_OFF);
      else localStorage.setItem(KEYS_OFF, "1");
    });
  } catch {
    // Without storage the setting lasts as long as the page.
  }
}
