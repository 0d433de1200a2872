"use strict";
// Sorting and filtering of the labels. Without this script the page shows the whole table and no controls.
(() => {
{% include "sort.js" %}

  const status = byId("label-status"), filter = byId("label-filter");
  const table = document.querySelector("table.labels");
  const rows = all("[data-row]", table);
  makeSortable(table, status);
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const name = valueAt(row, 0).toLowerCase();
      row.hidden = !words.every((word) => name.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    status.textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} labels shown.`;
  });
  byId("label-controls").hidden = false;
})();
