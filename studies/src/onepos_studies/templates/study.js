"use strict";
// Sorting, filtering and switching. Without this script the page shows every table in full and no controls.
(() => {
{% include "sort.js" %}

  const containsAll = (text, words) => words.every((word) => text.includes(word));
  const wordsOf = (input) => input.value.toLowerCase().split(/\s+/).filter(Boolean);

  function showRows(rows, wanted, status, what) {
    let shown = 0;
    for (const row of rows) {
      row.hidden = !wanted(row);
      shown += row.hidden ? 0 : 1;
    }
    const count = (number) => number.toLocaleString("en");
    status.textContent = `${count(shown)} of ${count(rows.length)} ${what} shown.`;
  }

  function results() {
    const status = byId("result-status"), filter = byId("result-filter"), controls = byId("result-controls");
    const tables = all(".study-table");
    const boxes = all("input[name=method]", controls);
    const rules = byId("rule-controls");
    const choice = (name) => document.querySelector(`.controls input[name=${name}]:checked`)?.value;

    function filterRows() {
      const words = wordsOf(filter);
      const current = tables.find((table) => !table.hidden);
      const matches = (row) => containsAll(cellsOf(row)[0].textContent.toLowerCase(), words);
      for (const table of tables) if (table !== current) showRows(all("[data-row]", table), matches, status, "");
      if (current) showRows(all("[data-row]", current), matches, status, "rows");
      else status.textContent = "No table of this measure and this rule.";
    }
    function switchTable() {
      const metric = choice("metric"), selection = choice("selection");
      for (const table of tables) table.hidden = table.dataset.metric !== metric || table.dataset.selection !== selection;
      for (const part of all("[data-rule]")) part.hidden = part.dataset.rule !== selection;
      filterRows();
    }
    function showColumns() {
      const shown = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
      for (const cell of all("[data-method]")) cell.hidden = !shown.has(cell.dataset.method);
    }

    tables.forEach((table) => all("table.sortable", table).forEach((inner) => makeSortable(inner, status)));
    [...all("input[type=radio]", controls), ...all("input", rules)].forEach((radio) => radio.addEventListener("change", switchTable));
    boxes.forEach((box) => box.addEventListener("change", showColumns));
    all("[data-check]", controls).forEach((button) => button.addEventListener("click", () => {
      for (const box of boxes) box.checked = button.dataset.check === "all";
      showColumns();
    }));
    filter.addEventListener("input", filterRows);
    controls.hidden = rules.hidden = false;
    // A browser may bring back earlier choices when the page is loaded again.
    switchTable();
    showColumns();
  }

  function cells() {
    const status = byId("cell-status"), filter = byId("cell-filter"), controls = byId("cell-controls");
    const table = document.querySelector("table.cells");
    const rows = all("[data-row]", table);
    // What a cell's details list as tried is left out: it would match settings that were not chosen.
    const texts = new Map(rows.map((row) => {
      const parts = [...Array.from(cellsOf(row), (cell) => cell.textContent), row.querySelector("summary").textContent];
      return [row, parts.join(" ").toLowerCase()];
    }));
    const selects = all("select[data-column]", controls);

    function filterRows() {
      const words = wordsOf(filter);
      const wanted = selects.filter((select) => select.value !== "");
      showRows(rows, (row) => containsAll(texts.get(row), words)
        && wanted.every((select) => valueAt(row, Number(select.dataset.column)) === select.value), status, "cells");
    }
    makeSortable(table, status);
    filter.addEventListener("input", filterRows);
    selects.forEach((select) => select.addEventListener("change", filterRows));
    controls.hidden = false;
    filterRows();
  }

  results();
  cells();
})();
