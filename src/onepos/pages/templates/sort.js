  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const byId = (name) => document.getElementById(name);
  const order = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  const NEXT = { none: "ascending", ascending: "descending", descending: "none" };

  // A row is a <tr>, or a <tbody> whose first <tr> holds the columns and whose second one the details.
  const cellsOf = (row) => (row.rows ? row.rows[0] : row).cells;
  const valueAt = (row, column) => cellsOf(row)[column].dataset.value ?? "";

  function sorted(rows, column, kind, direction) {
    const sign = direction === "ascending" ? 1 : -1;
    const compare = kind === "number" ? (a, b) => Number(a) - Number(b) : order.compare;
    return rows.slice().sort((first, second) => {
      const a = valueAt(first, column), b = valueAt(second, column);
      // What has no value comes last in both directions.
      if (a === "" || b === "") return (a === "") - (b === "");
      return sign * compare(a, b);
    });
  }

  function makeSortable(table, status) {
    const rows = all("[data-row]", table);
    if (!rows.length) return;
    const home = rows[0].parentNode;
    const headers = all("thead th[data-kind]", table);
    headers.forEach((header, column) => {
      // A real button: click, Enter and Space come with it.
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...header.childNodes);
      header.append(button);
      header.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const direction = NEXT[header.getAttribute("aria-sort")];
        for (const other of headers) other.setAttribute("aria-sort", "none");
        header.setAttribute("aria-sort", direction);
        home.append(...(direction === "none" ? rows : sorted(rows, column, header.dataset.kind, direction)));
        const name = button.textContent.trim();
        status.textContent = direction === "none" ? "In the original order." : `Sorted by ${name}, ${direction}.`;
      });
    });
  }
