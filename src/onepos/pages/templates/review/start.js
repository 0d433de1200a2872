// Connects the elements with the actions and shows the first open example.
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
  for (const name of ["from", "to"]) {
    byId(name).addEventListener("input", () => {
      const { low, high } = readControls();
      byId("range-text").textContent = `${low / 10}–${high / 10} %`;
      refilter();
    });
  }
  for (const name of ["state", "sort", "label"]) {
    let byPointer = false;
    byId(name).addEventListener("pointerdown", () => { byPointer = true; });
    byId(name).addEventListener("keydown", () => { byPointer = false; });
    byId(name).addEventListener("change", () => {
      refilter();
      // Whoever chose with the mouse goes on with j and k, which the field would take for a search.
      if (byPointer && !document.body.classList.contains("listing")) byId("pane").focus({ preventScroll: true });
    });
  }
}

function resetControls() {
  for (const [name, value] of [["search", ""], ["state", "all"], ["sort", "worth"], ["label", ""], ["from", 0], ["to", 100]]) {
    byId(name).value = value;
  }
  byId("range-text").textContent = "0–100 %";
}

function connect() {
  onClick("previous", () => move(-1));
  onClick("next", () => move(1));
  onClick("undo", undo);
  onClick("reopen", reopen);
  onClick("accept-all", acceptSet);
  onClick("done", done);
  onClick("list-open", () => showSide(true));
  onClick("list-close", () => showSide(false));
  onClick("reset", () => { resetControls(); refilter(); });
  onClick("save", () => download(toCsv()));
  onClick("load", () => byId("load-file").click());
  byId("load-file").addEventListener("change", async () => {
    const [file] = byId("load-file").files;
    if (file) await load(file);
    byId("load-file").value = ""; // the same file can be chosen again
  });
  onClick("help-button", showHelp);
  onClick("help-close", () => byId("help").close());
  onClick("forget", () => { byId("help").close(); forget(); });
  byId("add").addEventListener("change", () => { if (byId("add").value !== "") addLabel(Number(byId("add").value)); });
  byId("list").addEventListener("scroll", drawList, { passive: true });
  document.addEventListener("keydown", onKey);
  window.addEventListener("resize", () => { measureRows(); drawList(); });
  // Another window with this page has decided something.
  window.addEventListener("storage", (event) => {
    if (!event.key?.startsWith(PREFIX)) return;
    const example = Number(event.key.slice(PREFIX.length));
    if (Number.isInteger(example) && example < SIZE) put(example, decode(event.newValue ?? ""));
    drawSuggestions();
    drawChange();
  });
}

restore();
keepKeySetting();
fillLabelFilter();
fillAddChoice();
resetControls(); // a browser may bring back earlier choices when the page is loaded again
byId("filters").open = window.matchMedia("(min-width: 60rem) and (min-height: 62rem)").matches;
connectControls();
connect();
measureRows();
computeView();
current = view.find((example) => !isDecided(example)) ?? 0;
drawAll();
performance.mark("review-ready");
