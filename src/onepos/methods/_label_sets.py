"""What every classifier does with its logits: it calibrates them and cuts label sets."""

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from onepos._utils.context import warn
from onepos._utils.validation import check_validation_labels
from onepos.exceptions import LabelWarning
from onepos.label_sets.calibration import Calibration, calibration_by_rates, fit_calibration, out_of_fold
from onepos.label_sets.thresholds import (
    Measure,
    Scores,
    cardinality_threshold,
    promised_threshold,
    rate_thresholds,
    resolve_n_positives,
    sample_thresholds,
)

if TYPE_CHECKING:
    from onepos.training import History

#: Most scores (rows × labels) that are returned at once, 8 bytes each.
_MOST_SCORES = 1 << 29


class LabelSetsMixin:
    """What every classifier does with its logits: it calibrates them and cuts label sets."""

    n_positives: Any
    at_least_one: bool
    classes_: NDArray[Any]
    single_label_: bool
    thresholds_: Scores
    at_least_one_: bool
    thresholds_from_: str
    n_positives_: float
    n_positives_from_: str
    calibration_: Calibration
    history_: "History"

    def _check_features(self, X: Any) -> Any:
        """Return validated features."""
        raise NotImplementedError(f"{type(self).__name__} must validate features.")

    def _logits(self, X: Any) -> Scores:
        """Return the logits of validated features, shape (n_samples, n_labels), in float64."""
        raise NotImplementedError(f"{type(self).__name__} must say how it scores rows.")

    def _ranking(self, X: Any) -> Scores:
        """Return what calibration maps to logits, of validated features: logits, or log-shares if there are any."""
        return self._logits(X)

    def _level(self, ranking: Scores) -> Scores:
        """Return the logits that belong to a ``_ranking``."""
        return ranking

    def _final_logits(self, X: Any) -> Scores:
        """Return the logits, calibrated if ``calibrate`` was called."""
        features = self._check_features(X)
        n_rows, n_labels = features.shape[0], len(self.classes_)
        if n_rows * n_labels > _MOST_SCORES:
            raise ValueError(
                f"scores of {n_rows:,} rows × {n_labels:,} labels would take {8e-9 * n_rows * n_labels:.0f} GB: pass "
                f"at most {_MOST_SCORES // n_labels:,} rows at a time. `onepos predict` writes the best labels."
            )
        return (
            self.calibration_.apply(self._ranking(features))
            if hasattr(self, "calibration_")
            else self._logits(features)
        )

    def _cut_at(self, logits: Scores, *, complete: NDArray[np.int8] | None = None, rows: str) -> None:
        """Cut label sets so that rows with these logits, called ``rows``, have ``n_positives_`` labels on average."""
        if not hasattr(self, "n_positives_"):
            self.n_positives_, self.n_positives_from_ = resolve_n_positives(
                self.n_positives, len(self.classes_), complete, one_class=self.single_label_
            )
        facts: dict[str, Any] = {"n_positives": self.n_positives_, "n_positives_from": self.n_positives_from_}
        if not self.single_label_:
            threshold = cardinality_threshold(expit(logits), self.n_positives_, at_least_one=self.at_least_one)
            self.thresholds_ = np.full(len(self.classes_), threshold)
            self.at_least_one_, self.thresholds_from_ = self.at_least_one, rows
            facts["thresholds_from"] = rows
        if hasattr(self, "history_"):
            self.history_.facts |= facts

    def choose_thresholds(
        self,
        X: Any,
        *,
        n_positives: float | None = None,
        rates: Any = None,
        labels: Any = None,
        measure: Measure = "f1",
        at_least_one: bool = True,
    ) -> Self:
        """Choose the probability from which a label is in the set of ``predict``; ``fit`` discards the choice.

        One positive per row tells how labels rank, not how many are true. Pass exactly one of ``n_positives``,
        ``rates`` and ``labels``.

        Parameters
        ----------
        X : array, CSR matrix or DataFrame of shape (n_samples, n_features)
            Rows like those to be predicted, best not those of ``fit``, on which the model is too confident.
        n_positives : float
            Mean number of labels per row: one threshold for all labels, at which the rows of X have that many.
        rates : sequence of float, or mapping of label to float
            Share of rows that have each label: a threshold for each label.
        labels : indicator of shape (n_samples, n_labels)
            Complete labels of X: for each label the threshold that is best on them.
        measure : {"f1", "hamming"}
            What is best, with ``labels``.
        at_least_one : bool
            Put the most likely label into a set that would be empty.

        Returns
        -------
        self, with ``thresholds_`` of shape (n_labels,)
        """
        probabilities = expit(self._final_logits(X))
        if self.single_label_:
            raise ValueError("thresholds are for label sets; this model was fitted on one class per row (a 1-D y).")
        if sum(given is not None for given in (n_positives, rates, labels)) != 1:
            raise ValueError("pass exactly one of n_positives, rates and labels; thresholds are computed from it.")
        if n_positives is not None:
            threshold = cardinality_threshold(probabilities, n_positives, at_least_one=at_least_one)
            values = np.full(len(self.classes_), threshold)
        elif rates is not None:
            values = rate_thresholds(probabilities, self._in_order(rates))
        else:
            values = sample_thresholds(probabilities, check_validation_labels(labels, self.classes_), measure=measure)
        self.thresholds_, self.at_least_one_, self.thresholds_from_ = values, at_least_one, "choose_thresholds"
        return self

    def _in_order(self, rates: Any) -> Scores:
        """Return rates in the order of the labels, from a sequence or a mapping."""
        if hasattr(rates, "keys"):
            missing = [str(label) for label in self.classes_.tolist() if label not in rates]
            if missing:
                raise ValueError(f"rates must have every label; missing: {', '.join(missing[:5])}.")
            rates = [rates[label] for label in self.classes_.tolist()]
        return np.asarray(rates, dtype=np.float64)

    def calibrate(
        self,
        X: Any,
        Y: Any = None,
        *,
        rates: Any = None,
        sets: Literal["sample", "half"] = "sample",
        precision: float | None = None,
        recall: float | None = None,
    ) -> Self:
        """Correct ranking and probabilities by a small sample with complete labels, or by known shares of the labels.

        People do not choose evenly which true label they write down. The sample shows how often each label is true:
        see ``onepos.label_sets.calibration``. Ranking and probabilities change as far as the sample gives reason to.
        A second call starts from the uncalibrated model; ``fit`` discards the correction. Pass ``Y`` or ``rates``.

        Parameters
        ----------
        X : array, CSR matrix or DataFrame of shape (n_samples, n_features)
            Rows like those to be predicted, at least 10, better 50, and not those of ``fit``.
        Y : indicator of shape (n_samples, n_labels)
            Their complete labels. Entries other than 1 mean absent.
        rates : sequence of float, or mapping of label to float
            Share of rows that have each label. Each label gets the offset at which its mean probability is that share.
        sets : {"sample", "half"}
            Where ``predict`` cuts: so that sets have as many labels as the rows of the sample in the mean, or
            ``n_positives`` if that was given; or at probability ½, which gives the fewest wrong entries, and smaller
            sets.
        precision, recall : float
            Instead of ``sets`` a promise: this share of the suggested tags is right, or this share of the true tags is
            suggested. It holds in the mean over samples, for rows like those of X: see ``promised_threshold`` in
            ``onepos.label_sets.thresholds``. A set is empty where no tag is sure enough for the precision.

        Returns
        -------
        self, with ``calibration_``

        Examples
        --------
        >>> import onepos
        >>> from onepos.datasets import make_known_posterior
        >>> data = make_known_posterior(600, 5, 4, random_state=0)
        >>> model = onepos.make_classifier("an", random_state=0).fit(data.X[:400], data.observed[:400])
        >>> float(data.Y[400:].mean().round(2)), float(model.predict_proba(data.X[400:]).mean().round(2))
        (0.5, 0.25)
        >>> float(model.calibrate(data.X[400:500], data.Y[400:500]).predict_proba(data.X[400:]).mean().round(2))
        0.47
        """
        ranking = self._ranking(self._check_features(X))
        if self.single_label_:
            raise ValueError("calibration is for label sets; this model was fitted on one class per row (a 1-D y).")
        if sets not in ("sample", "half"):
            raise ValueError(f'sets must be "sample" or "half"; got {sets!r}.')
        if (Y is None) == (rates is None):
            raise ValueError("pass either Y, complete labels of the rows of X, or rates, the shares of the labels.")
        promise = precision is not None or recall is not None
        if Y is None:
            if promise:
                raise ValueError("precision and recall are promised by rows with complete labels: pass Y, not rates.")
            shares = self._in_order(rates)
            calibration, size = calibration_by_rates(ranking, shares), float(shares.sum())
        else:
            truth = self._complete_labels(Y, len(ranking))
            calibration, size = fit_calibration(ranking, truth), float((truth > 0).sum(axis=1).mean())
        threshold, at_least_one = 0.5, self.at_least_one and precision is None
        if promise:
            held_out = expit(out_of_fold(ranking, truth))
            threshold = promised_threshold(held_out, truth, precision=precision, recall=recall)
        elif sets == "sample":
            size = size if self.n_positives is None else float(self.n_positives)
            probabilities = expit(calibration.apply(ranking))
            threshold = cardinality_threshold(probabilities, size, at_least_one=self.at_least_one)
        self.calibration_, self.thresholds_ = calibration, np.full(len(self.classes_), threshold)
        self.at_least_one_, self.thresholds_from_ = at_least_one, "calibrate"
        return self

    def _complete_labels(self, Y: Any, n_rows: int) -> NDArray[np.int8]:
        """Return complete labels of so many rows; warn if they look like tags."""
        truth: NDArray[np.int8] = check_validation_labels(Y, self.classes_)
        if len(truth) != n_rows:
            raise ValueError(f"X and Y must have the same number of rows; got {n_rows} and {len(truth)}.")
        if ((truth > 0).sum(axis=1) == 1).all():
            warn(
                f"every one of the {len(truth)} sample rows has exactly one label; calibration takes them for complete "
                "and the other labels for absent. Observed tags alone would make all probabilities too low.",
                LabelWarning,
                stacklevel=3,
            )
        return truth
