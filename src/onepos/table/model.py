"""A model of tables: columns, labels and classifier in one estimator and one file."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from onepos._utils import storage
from onepos._utils.context import option, quiet, seconds_not_counted, stage, tell
from onepos._utils.validation import has_label, shorten, to_dense, unchanged_on_error
from onepos.exceptions import DataFileError, LabelWarning
from onepos.label_sets.thresholds import label_sets
from onepos.methods._base import OnePositiveClassifier
from onepos.methods.registry import StoredEstimator
from onepos.metrics import average_precision
from onepos.table.embedding import assign
from onepos.table.encoder import ColumnEncoder
from onepos.table.facts import FACTS, compare
from onepos.table.files import SAMPLE_BYTES, TableData, read_table
from onepos.table.kinds import Tally, as_list, named
from onepos.table.tags import LabelColumns, apply_decisions, join_things, joined_with, row_ids, split_tags
from onepos.table.training import EncodedRows, fit_in_time, make_estimator, split_rows

_SET_ROWS, _SET_SCORES = 2_000, 20_000_000  # Rows, and rows × labels, that give the mean size of label sets


@dataclass(kw_only=True, eq=False, repr=False)
class TableModel(BaseEstimator):
    """A classifier of table rows, trained from one tag per row.

    Parameters
    ----------
    method, params : str, dict
        Method and its settings, as for ``onepos.make_classifier``. The ``time_budget`` of "auto" includes the encoding
        of columns, but not the embedding of texts and pictures.
    text, categories, drop, image, embed, image_folder
        As for ``ColumnEncoder``. The file of a model holds the name and a fingerprint of the embedder, not its weights,
        and not the folder.
    id : str, optional
        The column that names the rows; not a feature. Without it rows are numbered from 1 on.
    group : str, optional
        The column that names the thing that a row describes, such as an item, a place or a patient; not a feature. The
        first row of a thing is used, with the tags of all of its rows.
    separator : str, optional
        What stands between the tags of a cell of the label column, such as ";" in ``Drama;Romance``. Without it a cell
        holds one tag.
    n_positives : float, optional
        Mean number of labels per row: the sets of ``predict`` have that size on average.
    at_least_one : bool
        Put the best label into a set that would be empty.
    validation_fraction : float, optional
        Share of the tagged rows that training never sees; ``facts_`` says how their tags are ranked. 0: none.
        Default: none with "auto", which predicts every training row out of fold, else 0.1.
    random_state : int, optional
    scores : str, optional
        Columns ``SCORES(label)``, such as ``clip(beach)`` for "clip", hold scores of another model. "auto" calibrates
        and weighs them as one of its members. Cells and columns may be missing.

    Attributes
    ----------
    labels_ : list of str
        The labels, in the order of the columns of predictions.
    encoder_, estimator_ : ColumnEncoder, a onepos classifier
    label_, id_, separator_, at_least_one_
        The label column of the training table, and the settings of these names.
    facts_ : dict
        Rows, rows without a tag, decisions, how tags that training did not see are ranked by this and simpler methods
        (``"held_out"``), the size of label sets (``"sets"``), and what calibration did.
    held_out_ : array of int
        Positions of the rows that training did not see; not stored in the file.

    Examples
    --------
    >>> import pandas as pd
    >>> from onepos import TableModel
    >>> photos = pd.DataFrame({"caption": ["sand and sea", "tall towers", "sea and sun"] * 9})
    >>> photos["tag"] = ["beach", "city", "beach"] * 9
    >>> model = TableModel(method="logistic", text="caption", n_positives=1.0).fit(photos, label="tag")
    >>> model.predict(pd.DataFrame({"caption": ["the sea"]}))
       beach  city
    0      1     0
    """

    _stored: ClassVar[storage.Rules] = {
        "labels_": storage.TEXTS,
        "label_": storage.Maybe(storage.TEXT),
        "id_": storage.Maybe(storage.TEXT),
        "separator_": storage.Maybe(storage.TEXT),
        "at_least_one_": storage.TRUTH,
        "facts_": FACTS,
        "encoder_": storage.Part(ColumnEncoder),
        "estimator_": StoredEstimator(),
    }

    method: str = "auto"
    params: dict[str, Any] | None = None
    text: str | Sequence[str] = ()
    categories: str | Sequence[str] = ()
    drop: str | Sequence[str] = ()
    id: str | None = None
    group: str | None = None
    separator: str | None = None
    n_positives: float | None = None
    at_least_one: bool = True
    validation_fraction: float | None = None
    random_state: int | None = 0
    image: str | None = None
    embed: Any = None
    image_folder: str | Path = ""
    scores: str | None = None

    def check_settings(self, checkpoint: str | Path | None = None) -> OnePositiveClassifier:
        """Return the estimator that ``fit`` will train; ValueError if a setting is wrong. No data are needed."""
        if not 0 <= (self.validation_fraction or 0) < 1:
            raise ValueError(f"validation_fraction must be at least 0 and below 1; got {self.validation_fraction}.")
        assign(self.embed, text=as_list(self.text), image=self.image)
        if self.scores is not None and self.method != "auto":
            raise ValueError(f"{option('scores')} is for the method auto; got {self.method!r}. Leave one of them out.")
        params = dict(self.params or {})
        made = make_estimator(self.method, params, self.random_state, self.n_positives, self.at_least_one)
        if checkpoint is not None and "max_epochs" not in made.get_params(deep=False):
            raise ValueError(f"method {self.method!r} has no epochs after which to keep it: leave the checkpoint out.")
        return made

    def fit(
        self,
        table: pd.DataFrame | TableData | str | Path,
        y: Any = None,
        *,
        label: str | None = None,
        labels: Sequence[str] | None = None,
        decisions: pd.DataFrame | None = None,
        checkpoint: str | Path | None = None,
        estimator: OnePositiveClassifier | None = None,
    ) -> Self:
        """Train on a table.

        Parameters
        ----------
        table : DataFrame, TableData, or path of a file or a folder
            The files of a folder have one format and the same columns. If the cells of a file or a folder have more
            than a gigabyte, a random half, quarter, … of the rows is used, which is the same in each run.
        y : Series or array of tags, or DataFrame of 0/1 columns; optional
            The tags, if they are no columns of the table, as scikit-learn passes them.
        label : str
            The column with one tag per row; an empty cell is a row without observation.
        labels : list of str
            Instead of ``label``: the 0/1 columns.
        decisions : DataFrame, optional
            As from ``onepos.pages.review.read_decisions``: labels that a reviewer accepted or rejected, by row id.
        checkpoint : path of a folder, optional
            As for the ``fit`` of the method.
        estimator : onepos classifier, optional
            What ``check_settings`` returned, if it was called before the table was read.
        """
        with unchanged_on_error(self):
            started = time.monotonic()
            if estimator is None:
                estimator = self.check_settings(checkpoint)
            if y is not None:
                table, label, labels = joined_with(table, y, label, labels)
            columns = LabelColumns(label, labels, self.id, self.separator)
            columns.check(as_list(self.text))
            self.label_, before = label, seconds_not_counted()
            if isinstance(table, str | Path):
                table = self.read(table, label)
            data = table if isinstance(table, TableData) else TableData(named(table))
            rows, notes, decided = self._encode(data, columns, decisions)
            if self.scores is not None:
                estimator.set_params(n_scores=len(self.labels_))
            started += seconds_not_counted() - before
            return self._train(estimator, rows, notes, decided, started=started, checkpoint=checkpoint)

    def _encode(
        self, data: TableData, columns: LabelColumns, decisions: pd.DataFrame | None
    ) -> tuple[EncodedRows, list[str], dict[str, int] | None]:
        """Return the rows of a table, notes about its columns, and how many decisions there are of each kind."""
        frame, notes = data.frame, data.notes
        self.labels_, observed = columns.observed(frame)
        encoder, thing, decided = self._new_encoder(columns), None, None
        if decisions is not None or self.group is not None:
            indicator = pd.DataFrame(to_dense(observed), columns=self.labels_, index=frame.index)
            if decisions is not None:
                if notes and self.id is None:
                    raise DataFileError("the table is a sample of the file, so decisions need ids: name the id column.")
                indicator, decided = apply_decisions(indicator, row_ids(frame, self.id), decisions)
            if self.group is not None:
                frame, indicator, thing, note = join_things(frame, indicator, self.group, encoder.drop)
                notes.append(note)
            observed = indicator.to_numpy(dtype=np.int8)
        if self.scores is not None and not set(encoder.scores) & set(frame.columns):
            raise DataFileError(
                f"no column holds scores of a label: expected names such as {encoder.scores[0]!r}; the columns are "
                f"{shorten(frame.columns)}."
            )
        features = frame.drop(columns=encoder.drop, errors="ignore")
        train, held = split_rows(observed, self.method, self.validation_fraction, self.random_state, features)
        tell(0.03, "encoding columns")
        tally = Tally()
        with stage(0.03, 0.05):
            self.encoder_ = encoder.fit(frame.iloc[train], decimals=data.decimals)
            encoded = self.encoder_.transform(frame, tally)
        return EncodedRows(encoded, observed, train, held, thing=thing), [*notes, *tally.notes()], decided

    def read(self, path: str | Path, label: str | None, *, sheet: str | None = None) -> TableData:
        """Read a file or a folder to train on, in bounded memory."""
        plain = [*filter(None, (label, self.id, self.group, self.image)), *as_list(self.text)]
        return read_table(path, words=as_list(self.categories), plain=plain, sheet=sheet, most_bytes=SAMPLE_BYTES)

    def _new_encoder(self, columns: LabelColumns) -> ColumnEncoder:
        return ColumnEncoder(
            text=self.text,
            categories=self.categories,
            drop=[*columns.names, *([self.group] if self.group else []), *as_list(self.drop)],
            image=self.image,
            embed=self.embed,
            image_folder=self.image_folder,
            scores=[f"{self.scores}({label})" for label in self.labels_] if self.scores is not None else (),
        )

    def _train(
        self,
        estimator: OnePositiveClassifier,
        rows: EncodedRows,
        notes: list[str],
        decided: dict[str, int] | None,
        *,
        started: float,
        checkpoint: str | Path | None,
    ) -> Self:
        """Train on encoded rows and collect the facts."""
        if self.id in {f"p({name})" for name in self.labels_}:
            raise DataFileError(f"the id column {self.id!r} has the name of a column that predictions have. Rename it.")
        self.id_, self.separator_, self.at_least_one_ = self.id, self.separator, self.at_least_one
        tell(0.05, "training")
        features, tags = rows.to_fit(self.labels_)
        # A table may have rows without a tag, and facts_ counts them.
        with stage(0.05, 0.95), quiet(LabelWarning, "have no observed positive"):
            fit_in_time(estimator, features, tags, started=started, checkpoint=checkpoint)
        estimator.classes_ = np.array(self.labels_, dtype=object)  # sparse labels have no names
        self.estimator_, self.held_out_ = estimator, rows.held_in_table()
        tell(0.95, "comparing on held-out rows")
        unseen = np.sort(rows.held if len(rows.held) else rows.train)
        n_some = min(_SET_ROWS, max(100, _SET_SCORES // len(self.labels_)))
        some = rows.features[unseen[:: max(1, len(unseen) // n_some)]]
        size = float(self._sets(estimator.predict_proba(some)).sum(axis=1).mean())
        labelled = has_label(rows.observed)
        self.facts_: dict[str, Any] = {
            "method": self.method,
            "rows": len(labelled),
            "rows_without_tag": int((~labelled).sum()),
            "training_rows": len(rows.train),
            "held_out_rows": len(rows.held),
            "counts": dict(zip(self.labels_, map(int, (rows.observed > 0).sum(axis=0)), strict=True)),
            "decisions": decided,
            "notes": notes,
            "held_out": compare(estimator, self.method, rows, self.labels_, self.random_state),
            "sets": {"mean_size": size, "n_positives": self.n_positives, "guessed": self.n_positives is None},
            "calibration": None,
        }
        return self

    def predict_proba(self, table: pd.DataFrame, tally: Tally | None = None) -> pd.DataFrame:
        """Return the probability of every label, one column each, for the rows of a table with the same columns."""
        self._check_trained()
        values = self.estimator_.predict_proba(self.encoder_.transform(table, tally))
        return pd.DataFrame(np.asarray(values), columns=self.labels_, index=table.index)

    def predict(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return label sets as a 0/1 table: 1 where the probability reaches ``thresholds_``."""
        return pd.DataFrame(self._sets(self.predict_proba(table)), columns=self.labels_, index=table.index)

    def score(self, table: pd.DataFrame, y: Any) -> float:
        """Return the average precision of the ranking; against one tag per row, that is the mean reciprocal rank.

        ``y`` is as for ``fit``, one tag per row or 0/1 columns. Rows without a label that the model knows do not count.
        """
        probabilities = self.predict_proba(table)
        known = pd.DataFrame(y) if np.ndim(y) == 2 else split_tags(pd.Series(y), self.separator_, self.labels_)
        return average_precision(known.reindex(columns=self.labels_, fill_value=0), probabilities)

    def choose_thresholds(
        self,
        table: pd.DataFrame,
        *,
        n_positives: float | None = None,
        rates: Any = None,
        labels: Any = None,
        measure: Literal["f1", "hamming"] = "f1",
        at_least_one: bool = True,
    ) -> Self:
        """Choose from which probability on a label is in the sets of ``predict``; see the classifiers' method.

        ``table`` has rows like those to be predicted, best not those of ``fit``.
        """
        self._check_trained()
        features = self.encoder_.transform(table)
        how: dict[str, Any] = {"n_positives": n_positives, "rates": rates, "labels": labels, "measure": measure}
        self.estimator_.choose_thresholds(features, at_least_one=at_least_one, **how)
        self.at_least_one_ = at_least_one
        size = float(self.predict(table).to_numpy().sum(axis=1).mean())
        self.facts_["sets"] = {"mean_size": size, "n_positives": n_positives, "guessed": False}
        return self

    def _sets(self, probabilities: Any) -> NDArray[np.int64]:
        return label_sets(np.asarray(probabilities), self.thresholds_, at_least_one=self.at_least_one_)

    def calibrate(
        self,
        table: pd.DataFrame,
        labels: pd.DataFrame | None = None,
        *,
        rates: Any = None,
        sets: Literal["sample", "half"] = "sample",
        precision: float | None = None,
        recall: float | None = None,
    ) -> Self:
        """Correct ranking and sets by rows that training did not see; see the classifiers' ``calibrate``.

        ``labels`` has all labels of the rows of ``table``, one 0/1 column for each label of the model. Instead,
        ``rates`` has the share of rows with each label.
        """
        self._check_trained()
        if labels is not None and not labels.index.equals(table.index):
            raise ValueError("table and labels have different indices: they must be of the same rows, in one order.")
        features, estimator = self.encoder_.transform(table), self.estimator_
        before = np.asarray(estimator.predict_proba(features)).sum(axis=1).mean()
        estimator.calibrate(features, labels, rates=rates, sets=sets, precision=precision, recall=recall)
        after = np.asarray(estimator.predict_proba(features))
        self.at_least_one_ = estimator.at_least_one_
        self.facts_["calibration"] = {
            "rows": len(table),
            "labels_per_row": float(after.sum(axis=1).mean() if labels is None else (labels > 0).sum(axis=1).mean()),
            "expected_before": float(before),
            "expected_after": float(after.sum(axis=1).mean()),
            "set_size": float(self._sets(after).sum(axis=1).mean()),
            "slope": estimator.calibration_.slope,
        }
        return self

    @property
    def thresholds_(self) -> list[float]:
        """From which probability on each label is in the set."""
        return [float(value) for value in getattr(self.estimator_, "thresholds_", [0.5] * len(self.labels_))]

    def save(self, path: str | Path) -> Path:
        """Write everything that prediction needs to one file that ``onepos.load`` opens; loading it runs no code."""
        from onepos.persistence import save

        self._check_trained()
        return save(self, path)

    @classmethod
    def load(cls, path: str | Path, *, embed: Any = None, image_folder: str | Path = "") -> Self:
        """Open a saved TableModel.

        ``embed`` is the embedder of the training, if it has another name or folder here, or is an object of your own.
        Relative names of pictures begin in ``image_folder``; default: the current folder.
        """
        from onepos.persistence import load

        made = load(path)
        if not isinstance(made, cls):
            raise DataFileError(
                f"{path} holds a bare {type(made).__name__}, which knows no columns: open it with onepos.load and pass "
                "it a matrix, or train with `onepos fit`."
            )
        made.encoder_.use(embed, image_folder)
        return made

    def _check_trained(self) -> None:
        if not hasattr(self, "estimator_"):
            raise ValueError("this TableModel is not trained: call fit first, or open a saved one with onepos.load.")

    @classmethod
    def _from_stored(cls, fields: dict[str, Any]) -> Self:
        encoder, estimator, facts = fields["encoder_"], fields["estimator_"], fields["facts_"]
        if fields["labels_"] != [str(name) for name in estimator.classes_]:
            raise ValueError("labels_ must be the names of the classes of the estimator")
        if encoder.n_features_ != estimator.n_features_in_:
            raise ValueError(f"encoder_ must make {estimator.n_features_in_:,} features, not {encoder.n_features_:,}")
        made = cls(
            method=facts["method"],
            params={name: value for name, value in estimator.get_params(deep=False).items() if name != "n_positives"},
            text=encoder.text,
            categories=encoder.categories,
            drop=[name for name in encoder.drop if name not in (fields["label_"], fields["id_"])],
            id=fields["id_"],
            separator=fields["separator_"],
            n_positives=facts["sets"]["n_positives"],
            at_least_one=fields["at_least_one_"],
            image=encoder.image,
            embed=encoder.embed,
        )
        made.__dict__.update(fields)
        return made
