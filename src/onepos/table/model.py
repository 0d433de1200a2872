"""A table in, tags out: columns, labels and classifier in one object and one file."""

import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from onepos._utils.deadline import deadline, time_left
from onepos.exceptions import DataFileError, LabelWarning
from onepos.label_sets.thresholds import label_sets
from onepos.methods._base import facts_html, fitted_facts
from onepos.methods._rows import hold_out
from onepos.table.comparison import COMPARE_THEMSELVES, comparison, tell_baselines, tell_held_out
from onepos.table.encoder import ColumnEncoder, Tally, named
from onepos.table.numbers import is_sparse
from onepos.table.progress import Progress, fit_arguments
from onepos.table.settings import make_estimator, set_facts, tuning_facts
from onepos.table.tags import Named, observed_labels, suggestion_columns

if TYPE_CHECKING:
    import pandas as pd

    from onepos.methods._base import OnePositiveClassifier


#: With fewer held-out rows the threshold is chosen on training rows.
ROWS_FOR_THRESHOLD = 50
#: Share of the rows held out by methods that do not predict their training rows out of fold.
HELD_OUT = 0.1
#: What is left of a time budget, if reading and encoding took all of it.
_LEAST_SECONDS = 1.0


class TableModel:
    """A classifier of table rows, trained from one tag per row.

    Attributes
    ----------
    labels_ : list of str
        The labels, in the order of the columns of predictions.
    encoder_ : ColumnEncoder
        How columns become numbers.
    estimator_ : a onepos classifier
    label_, id_ : str or None
        The label and identifier columns of the training table.
    separator_ : str or None
        What stands between the tags of a cell of the label column.
    at_least_one_ : bool
        Whether ``predict`` puts the best label into a set that would be empty.
    facts_ : dict
        Rows, rows without a tag, decisions, how tags that training did not see are ranked by this and simpler methods
        (``"held_out"``), the size of label sets (``"sets"``), and what tuning and calibration did.
    held_out_ : array of int
        Positions of the rows that training did not see; not stored in the file.

    Examples
    --------
    >>> import pandas as pd
    >>> from onepos.table import TableModel
    >>> photos = pd.DataFrame({"caption": ["sand and sea", "tall towers", "sea and sun"] * 9})
    >>> photos["tag"] = ["beach", "city", "beach"] * 9
    >>> model = TableModel().fit(photos, label="tag", text="caption", method="linear", n_positives=1.0)
    >>> model.predict(pd.DataFrame({"caption": ["the sea"]}))
       beach  city
    0      1     0
    """

    labels_: list[str]
    encoder_: ColumnEncoder
    estimator_: "OnePositiveClassifier"
    label_: str | None
    id_: str | None
    separator_: str | None
    at_least_one_: bool
    facts_: dict[str, Any]
    held_out_: NDArray[np.intp]

    def fit(
        self,
        frame: "pd.DataFrame",
        *,
        label: str | None = None,
        labels: "Sequence[str] | pd.DataFrame | None" = None,
        text: str | Sequence[str] = (),
        id: str | None = None,
        drop: Sequence[str] = (),
        categories: Sequence[str] = (),
        separator: str | None = None,
        decisions: "pd.DataFrame | None" = None,
        method: str = "auto",
        params: dict[str, Any] | None = None,
        n_positives: float | None = None,
        at_least_one: bool = True,
        validation_fraction: float | None = None,
        random_state: int | None = 0,
        tune: Callable[[Any, Any, Any], Any] | None = None,
        checkpoint: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train on a table.

        Parameters
        ----------
        frame : DataFrame
        label : str
            The column with one tag per row; an empty cell is a row without observation.
        labels : sequence of str, or DataFrame
            Instead of ``label``: the 0/1 columns, or an indicator of the same rows.
        text, categories, drop
            See ``ColumnEncoder``.
        id : str, optional
            The column that names the rows; not a feature. Without it rows are numbered from 1 on.
        separator : str, optional
            What stands between the tags of a cell of ``label``, such as ";" in ``Drama;Romance``. Without it a cell
            holds one tag.
        decisions : DataFrame, optional
            As from ``onepos.pages.review.read_decisions``: labels that a reviewer accepted or rejected, by row id.
        method, params
            As for ``onepos.make_classifier``. The ``time_budget`` of "auto" includes the encoding of columns.
        n_positives : float, optional
            Mean number of labels per row. Methods that can use it are told; for the others it sets the threshold at
            which a label is in the set.
        at_least_one : bool
            Put the best label into a set that would be empty.
        validation_fraction : float, optional
            Share of the tagged rows that training never sees; how their tags are ranked is in ``facts_``. 0: none.
            Default: none with "auto", which predicts every training row out of fold, else 0.1.
        random_state : int, optional
        tune : callable, optional
            Chooses the settings on the training rows: ``onepos.tuning.tune``, or a ``functools.partial`` of it with a
            number of trials or seconds. ``params`` is where the search begins; what it tried is in ``facts_``.
        checkpoint : path of a folder, optional
            As for the ``fit`` of the method; not while settings are searched.
        progress : callable, optional
            Called with (step, share of the work done).
        """
        if validation_fraction is None:
            validation_fraction = 0.0 if method in COMPARE_THEMSELVES else HELD_OUT
        if not 0 <= validation_fraction < 1:
            raise ValueError(f"validation_fraction must be at least 0 and below 1; got {validation_fraction}.")
        if tune is not None and checkpoint is not None:
            raise ValueError("a search trains many models, and a checkpoint keeps one: give tune or checkpoint.")
        tell: Progress = progress or (lambda step, share: None)
        frame = named(frame)
        started = time.monotonic()
        estimator, by_threshold = make_estimator(method, dict(params or {}), random_state, n_positives)
        text = [text] if isinstance(text, str) else list(text)
        known = observed_labels(frame, Named(label, labels, id, separator), decisions, text=text)
        self.labels_, self.label_, self.id_ = list(map(str, known.indicator.columns)), label, id
        self.separator_, self.at_least_one_ = separator, at_least_one
        observed = known.indicator.to_numpy(dtype=np.int8)
        train, held = split_rows(observed, validation_fraction, random_state)
        self.held_out_ = held
        tell("encoding columns", 0.03)
        made = suggestion_columns(frame, self.labels_)
        self.encoder_ = ColumnEncoder(text=text, categories=categories, drop=[*known.columns, *drop, *made])
        # Taking rows of a frame with thousands of sparse columns takes minutes, and from those only gaps are learnt.
        self.encoder_.fit(frame if is_sparse(frame) else frame.iloc[train])
        self.encoder_.left_out_ |= dict.fromkeys(made, "was written by onepos complete: it is a guess, not data")
        tally = Tally()
        features = self.encoder_.transform(frame, tally)
        tell("training", 0.05)
        with warnings.catch_warnings():
            # Rows without a tag are allowed here, and counted below.
            warnings.filterwarnings("ignore", ".*have no observed positive", LabelWarning)
            rows, tags = features[train], known.indicator.iloc[train]
            if tune is None:
                tuned = None
                fit_in_time(
                    estimator, rows, tags, fit_arguments(estimator, progress, checkpoint, method), started=started
                )
            else:
                tuned = tune(estimator, rows, tags)
                estimator = tuned.best_estimator
        self.estimator_ = estimator
        if by_threshold:
            # Held-out rows if there are enough of them: on training rows a model is too sure of itself.
            chosen = held if len(held) >= ROWS_FOR_THRESHOLD else train
            estimator.choose_thresholds(features[chosen], n_positives=n_positives, at_least_one=at_least_one)
        self.facts_ = {
            "method": method,
            "rows": len(frame),
            "rows_without_tag": int((~(observed > 0).any(axis=1)).sum()),
            "training_rows": len(train),
            "held_out_rows": len(held),
            "counts": {name: int(n) for name, n in zip(self.labels_, (observed > 0).sum(axis=0), strict=True)},
            "decisions": known.decisions,
            "notes": tally.notes(self.encoder_.kinds_),
            "held_out": None,
            "sets": None,
            "tuning": None if tuned is None else tuning_facts(tuned),
            "calibration": None,
        }
        if len(held):
            tell("comparing on held-out rows", 0.95)
            unseen = (features[held], observed[held])
            own, recalls = tell_held_out(estimator, *unseen)
            methods = {method: own, **tell_baselines((rows, tags), unseen, without=method, random_state=random_state)}
            self.facts_["held_out"] = comparison(method, methods, rows=len(held), out_of_fold=False) | recalls
        elif getattr(estimator, "comparison_", None):
            found = estimator.comparison_
            self.facts_["held_out"] = comparison(method, found["methods"], rows=found["rows"], out_of_fold=True)
        self.facts_["sets"] = set_facts(self, features, held if len(held) else train, n_positives)
        return self

    def predict_proba(self, frame: "pd.DataFrame", tally: Tally | None = None) -> "pd.DataFrame":
        """Return the probability of every label, one column each, for the rows of a table with the same columns."""
        import pandas as pd

        self._check_trained()
        values = self.estimator_.predict_proba(self.encoder_.transform(frame, tally))
        return pd.DataFrame(np.asarray(values), columns=self.labels_, index=frame.index)

    def predict(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """Return label sets as a 0/1 table: 1 where the probability reaches ``thresholds_``."""
        import pandas as pd

        return pd.DataFrame(self._sets(self.predict_proba(frame)), columns=self.labels_, index=frame.index)

    def _sets(self, probabilities: Any) -> NDArray[np.int64]:
        return label_sets(np.asarray(probabilities), self.thresholds_, at_least_one=self.at_least_one_)

    def calibrate(self, frame: "pd.DataFrame", labels: "pd.DataFrame") -> Self:
        """Make probabilities mean what they say, from rows with complete labels; see the classifiers' ``calibrate``.

        Parameters
        ----------
        frame : DataFrame
            Rows that training did not see.
        labels : DataFrame of shape (n_samples, n_labels)
            All labels of those rows, one 0/1 column for each label of the model.
        """
        self._check_trained()
        features, estimator = self.encoder_.transform(frame), self.estimator_
        before = np.asarray(estimator.predict_proba(features)).sum(axis=1).mean()
        after = np.asarray(estimator.calibrate(features, labels).predict_proba(features)).sum(axis=1).mean()
        self.facts_["calibration"] = {
            "rows": len(frame),
            "labels_per_row": float((labels.to_numpy() > 0).sum(axis=1).mean()),
            "expected_before": float(before),
            "expected_after": float(after),
            "slope": estimator.calibration_.slope,
        }
        return self

    @property
    def thresholds_(self) -> list[float]:
        """From which probability on each label is in the set: one half, or what ``n_positives`` asked for."""
        return [float(value) for value in getattr(self.estimator_, "thresholds_", [0.5] * len(self.labels_))]

    def save(self, path: str | Path) -> Path:
        """Write everything that prediction needs to one file that ``onepos.load`` opens; loading it runs no code."""
        from onepos.persistence import save

        self._check_trained()
        return save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Open a saved TableModel."""
        from onepos.persistence import load

        made = load(path)
        if not isinstance(made, cls):
            raise DataFileError(
                f"{path} holds a bare {type(made).__name__}, which knows no columns: open it with onepos.load and pass "
                "it a matrix, or train with `onepos fit`."
            )
        return made

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        if not hasattr(self, "facts_"):
            return facts_html("TableModel, not trained", {})
        about = {"method": str(self.facts_["method"]), "rows": f"{self.facts_['training_rows']:,} trained on"}
        held = self.facts_["held_out"]
        if held is not None:
            rank = held["reciprocal_rank"]
            rows = f"{held['rows']:,} rows" + (", out of fold" if held["out_of_fold"] else "")
            about["held out"] = f"{rows}, mean reciprocal rank of the tag {rank:.4f}"
        return facts_html("TableModel", {**about, **fitted_facts(self.estimator_)})

    def _check_trained(self) -> None:
        if not hasattr(self, "estimator_"):
            raise ValueError("this TableModel is not trained: call fit first, or open a saved one with onepos.load.")

    def _state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, encoder = self.encoder_.state()
        own: dict[str, Any] = {"labels": self.labels_, "label": self.label_, "id": self.id_, "facts": self.facts_}
        own |= {"separator": self.separator_, "at_least_one": self.at_least_one_}
        return arrays, {**own, "encoder": encoder}

    @classmethod
    def _restored(
        cls, estimator: "OnePositiveClassifier", arrays: dict[str, NDArray[Any]], facts: dict[str, Any]
    ) -> Self:
        made = cls()
        made.estimator_ = estimator
        made.encoder_ = ColumnEncoder.from_state(arrays, facts["encoder"])
        made.labels_, made.label_, made.id_ = list(facts["labels"]), facts["label"], facts["id"]
        # Files of versions before 0.2 do not have these.
        made.separator_, made.at_least_one_ = facts.get("separator"), bool(facts.get("at_least_one", True))
        made.facts_ = {"sets": None} | dict(facts["facts"])
        if made.encoder_.n_features_ != estimator.n_features_in_ or len(made.labels_) != len(estimator.classes_):
            raise ValueError("columns and classifier do not fit together")
        return made


def split_rows(
    observed: NDArray[np.int8], fraction: float, random_state: int | None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows to train on, those without a tag among them, and the rows held out."""
    everything = np.arange(len(observed))
    tagged = np.flatnonzero((observed > 0).any(axis=1))
    spare = len(tagged) - len(np.unique(observed[tagged].argmax(axis=1)))
    if fraction == 0 or spare == 0:
        return everything, np.empty(0, dtype=np.intp)
    _, held = hold_out(observed, tagged, fraction, np.random.default_rng(random_state))
    return np.setdiff1d(everything, held, assume_unique=True), held


def fit_in_time(estimator: Any, features: Any, tags: Any, arguments: dict[str, Any], *, started: float) -> None:
    """Fit an estimator; of its ``time_budget``, if it has one, what passed since ``started`` is taken away."""
    budget = estimator.get_params(deep=False).get("time_budget")
    if budget is None:
        estimator.fit(features, tags, **arguments)
        return
    with deadline(started + budget):
        estimator.set_params(time_budget=max(time_left(), _LEAST_SECONDS))
    try:
        estimator.fit(features, tags, **arguments)
    finally:
        estimator.set_params(time_budget=budget)  # what the user asked for is what the model reports
