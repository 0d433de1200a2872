"""The journey of a user on a real table: one tag per row, doctor, fit, completed tags, review page, the truth."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos._utils.context import progress_to, quiet, stage, tell
from onepos.datasets import load_titles
from onepos.doctor import diagnose
from onepos.exceptions import TrainingWarning
from onepos.pages.review import review_page
from onepos.table import TableModel, complete_table, read_table
from onepos.training.machine import limited_threads

if TYPE_CHECKING:
    from onepos.doctor import Diagnosis

__all__ = ["DemoResult", "run_demo"]

LABEL, TEXT, ID = "genre", ["description", "title"], "id"
#: The mean number of genres per title. A user has to know it; every method gets it.
N_POSITIVES = 2.26
#: With these members only and no time limit, `auto` is quick and repeatable. Its default tries more, for a minute.
METHOD, PARAMS = "auto", {"methods": ["frequency", "logistic", "kernel"], "time_budget": None}
#: A genre is suggested if it is more likely than not.
THRESHOLD = 0.5
#: What the method is compared with, on the same columns: two classifiers of the one tag, a network with the plain
#: cross-entropy of that classifier, and the same network with a loss for one of several tags.
OTHERS = {
    "logistic regression": "logistic",
    "forest": "forest",
    "network, plain loss": "softmax",
    "network, capped loss": "capped",
}


@dataclass(frozen=True)
class DemoResult:
    """What the demo found.

    ``scores`` has a row per method: of as many suggestions as ``METHOD`` makes, the most probable ones, ``precision``
    is the share that is true, and ``recall`` the share of the hidden genres among them. ``rows`` has the title, the
    given, suggested and true genres of every row. ``facts`` are sizes, ``files`` the paths of what was written.
    """

    scores: pd.DataFrame
    rows: pd.DataFrame
    diagnosis: "Diagnosis"
    facts: Mapping[str, Any]
    files: Mapping[str, Path]
    seconds: float


def run_demo(*, out: Path, random_state: int = 0, n_rows: int | None = None) -> DemoResult:
    """Hide all genres of a title but one, suggest the others, compare with the hidden ones, and write a review page.

    Parameters
    ----------
    out : Path
        Folder for the files. It is created if it does not exist.
    random_state : int
        Draws the genre that each title keeps.
    n_rows : int, optional
        Use the first rows only.

    Raises
    ------
    KeyboardInterrupt
        Also if Ctrl-C came during training, which alone would end in a usable model.
    """
    started = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    names = {"table": "table.csv", "truth": "truth.csv", "completed": "completed.csv", "review": "review.html"}
    files = {name: out / path for name, path in names.items()}
    tell(0.0, "writing the table")
    titles = load_titles()[:n_rows]
    given, truth = draw_tags(titles["genres"], random_state)
    titles.drop(columns="genres").assign(**{LABEL: given}).to_csv(files["table"], index=False)
    titles[[ID, "title", "genres"]].to_csv(files["truth"], index=False)
    data = read_table(files["table"], plain=[LABEL, ID, *TEXT])
    tell(0.02, "doctor")
    features = data.frame.drop(columns=[LABEL, ID])
    diagnosis = diagnose(features, data.frame[LABEL], text=TEXT, ids=data.frame[ID])
    with limited_threads(1):  # on a busy machine, threads that wait for each other take ten times as long
        tell(0.1, "training")
        with stage(0.1, 0.4):
            model = _fit(METHOD, data.frame, PARAMS)
        completion = complete_table(model, data, threshold=THRESHOLD)
        completion.write(files["completed"])
        review_page(completion, files["review"], title="title", threshold=THRESHOLD)
        n_suggested, probabilities = completion.added(), {METHOD: completion.probabilities}
        for number, (title, key) in enumerate(OTHERS.items()):
            tell(0.4 + 0.15 * number, f"comparing with {title}")
            with progress_to(None):
                probabilities[title] = _fit(key, data.frame).predict_proba(data.frame)
    scores = {name: score(values, given, truth, n_suggested) for name, values in probabilities.items()}
    hidden = sum(map(len, truth)) - len(truth)
    suggested = [[name for name in tags.split(";") if name] for tags in completion.suggested]
    rows = pd.DataFrame({"title": titles["title"], "given": given, "suggested": suggested, "true": truth})
    facts = {
        "rows": len(titles),
        "labels": len(model.labels_),
        "mean_labels": sum(map(len, truth)) / len(truth),
        "hidden": hidden,
        "suggested": n_suggested,
        "random_state": random_state,
        "method": METHOD,
        "threshold": THRESHOLD,
    }
    tell(1.0, "done")
    results = pd.DataFrame.from_dict(scores, orient="index").rename_axis("method")
    return DemoResult(results, rows, diagnosis, facts, files, time.perf_counter() - started)


def draw_tags(genres: "pd.Series[str]", random_state: int) -> tuple[list[str], list[list[str]]]:
    """Return one genre of each row, drawn evenly, and all of them."""
    truth, random = [names.split(";") for names in genres], np.random.default_rng(random_state)
    return [names[random.integers(len(names))] for names in truth], truth


def _fit(method: str, table: pd.DataFrame, params: dict[str, Any] | None = None) -> TableModel:
    """Train as `onepos fit` does with the options that the command prints."""
    model = TableModel(method=method, params=params, text=TEXT, id=ID, n_positives=N_POSITIVES)
    # Training turns Ctrl-C into a warning and a model. Here it means that the user wants to leave.
    with quiet(TrainingWarning, "training was interrupted"):
        model.fit(table, label=LABEL)
    history = getattr(model.estimator_, "history_", None)
    if history is not None and history.facts.get("stopped") == "interrupted":
        raise KeyboardInterrupt
    return model


def score(probabilities: pd.DataFrame, given: list[str], truth: list[list[str]], n_suggested: int) -> dict[str, float]:
    """Compare the most probable labels beside the given ones with the hidden ones."""
    known, true = (_indicator(tags, list(probabilities.columns)) for tags in ([[tag] for tag in given], truth))
    values: NDArray[np.float64] = probabilities.to_numpy().copy()
    values[known] = -np.inf
    taken = np.argsort(-values, axis=None, kind="stable")[:n_suggested]
    right = int((true & ~known).ravel()[taken].sum())
    return {"precision": right / max(n_suggested, 1), "recall": right / max(int((true & ~known).sum()), 1)}


def _indicator(tags: list[list[str]], labels: list[str]) -> NDArray[np.bool_]:
    return np.array([[label in names for label in labels] for names in tags])
