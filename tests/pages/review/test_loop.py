"""The whole loop: a table, a model, the review page used with keys alone, its complete rows, a better model."""

import json

import numpy as np
import pandas as pd

from onepos.datasets import make_known_posterior
from review_window import choices, given, name, progress, save

LABELS = ["beach", "bird", "boat", "city", "forest", "night", "people", "snow"]
ROWS, COMPLETED = 500, 30
COLUMNS = ("--label", "tag", "--id", "id", "--method", "logistic")


def write_tables(folder):
    """Write three tables in which people write down the first labels far more often; return the labels of each row."""
    data = make_known_posterior(ROWS + 1000, 20, len(LABELS), n_positives=2.5, signal=1.0, random_state=3)
    rng = np.random.default_rng(0)
    propensity = np.geomspace(200, 1, len(LABELS))
    tags = [rng.choice(LABELS, p=propensity * row / (propensity * row).sum()) for row in data.Y]
    table = pd.DataFrame(data.X, columns=[f"x{number}" for number in range(20)]).round(4)
    table.insert(0, "id", [f"row-{number}" for number in range(len(table))])
    truth = [[label for label, applies in zip(LABELS, row, strict=True) if applies] for row in data.Y]
    table[:ROWS].assign(tag=tags[:ROWS]).to_csv(folder / "table.csv", index=False)
    table[ROWS:].assign(tags=[";".join(row) for row in truth[ROWS:]]).to_csv(folder / "new.csv", index=False)
    asked = rng.choice(table["id"][:ROWS], COMPLETED, replace=False)
    pd.DataFrame({"id": asked}).to_csv(folder / "asked.csv", index=False)
    return dict(zip(table["id"], truth, strict=True))


def complete_row(browser, true_labels):
    """Press the keys of somebody who knows the labels of the row on show."""
    numbers = {label: str(number) for number, label in enumerate(choices(browser), start=1)}
    for label in true_labels:
        if label in numbers:
            browser.press(numbers[label])
        elif given(browser)[0] != label:
            browser.press("o")
            browser.type(label)
            browser.press("Enter")
    browser.press("x")


def measures(run, model, folder):
    code, said, _ = run("evaluate", model, folder / "new.csv", "--label", "tags", "--separator", ";", "--json")
    assert code == 0
    return json.loads(said)


def test_thirty_rows_completed_with_keys_make_a_better_model(run, browser, tmp_path):
    truth = write_tables(tmp_path)
    table, first, better = (tmp_path / one for one in ("table.csv", "first.onepos", "better.onepos"))
    assert run("fit", table, *COLUMNS, "--out", first)[0] == 0
    page = ("--review", tmp_path / "page.html", "--only", tmp_path / "asked.csv")
    assert run("complete", table, "--model", first, "--out", tmp_path / "completed.csv", *page)[0] == 0

    browser.open(tmp_path / "page.html")
    for identity in pd.read_csv(tmp_path / "asked.csv")["id"]:
        assert name(browser) == identity
        complete_row(browser, truth[identity])
    assert progress(browser) == (COMPLETED, COMPLETED)
    sample = save(browser, tmp_path, "save-complete")
    assert browser.complaints == []

    # The file is read as it is, and holds what the person knows.
    rows = pd.read_csv(sample)
    assert {row.id: sorted(row.tag.split(";")) for row in rows.itertuples()} == {one: truth[one] for one in rows["id"]}
    code, said, _ = run("fit", table, *COLUMNS, "--sample", sample, "--out", better)
    assert code == 0
    assert f"tags of {COMPLETED} rows are left out of training" in " ".join(said.split())
    before, after = (measures(run, model, tmp_path) for model in (first, better))
    precision = [result["measures"]["average_precision"] for result in (before, after)]
    assert precision[1]["low"] > precision[0]["high"]
    assert after["sets"]["micro_f1"] > before["sets"]["micro_f1"] + 0.05

    # The other commands take the same file, and decisions are learnt from.
    for command in (("calibrate", first, sample, "--label", "tag", "--out", tmp_path / "calibrated.onepos"),
                    ("check-tags", first, sample, "--label", "tag"),
                    ("evaluate", first, sample, "--label", "tag", "--separator", ";")):  # fmt: skip
        assert run(*command)[0] == 0
    decisions = save(browser, tmp_path)
    code, said, _ = run("fit", table, *COLUMNS, "--decisions", decisions, "--out", tmp_path / "decided.onepos")
    assert code == 0
    assert f"complete rows: {COMPLETED}" in said
