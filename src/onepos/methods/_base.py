"""What every onepos classifier shares: scikit-learn's contract for a 1-D y, the multi-label one for a 2-D y."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, validate_data

from onepos._utils.launch import launched
from onepos._utils.private_names import Interval, StrOptions
from onepos._utils.validation import Labels, check_labels, check_validation_labels
from onepos.exceptions import LabelWarning
from onepos.label_sets.calibration import Calibration, fit_calibration
from onepos.label_sets.cardinality import resolve_n_positives
from onepos.label_sets.thresholds import Measure, cardinality_threshold, label_sets, rate_thresholds, sample_thresholds
from onepos.metrics import average_precision
from onepos.rows.items import DatasetRows, is_dataset
from onepos.rows.scaling import SCALE_KINDS, FeatureScaler
from onepos.rows.stored import DiskRows, check_finite, on_disk

if TYPE_CHECKING:
    from onepos.training import History

#: What a method stores: arrays by name, and facts that JSON can hold.
State = tuple[dict[str, NDArray[Any]], dict[str, Any]]
#: Constraints on parameters by name, as scikit-learn has them.
Constraints = dict[str, list[Any]]

COUNT, COUNT_OR_ZERO = Interval(Integral, 1, None, closed="left"), Interval(Integral, 0, None, closed="left")
POSITIVE, POSITIVE_OR_ZERO = Interval(Real, 0, None, closed="neither"), Interval(Real, 0, None, closed="left")
AT_LEAST_ONE, NUMBER = Interval(Real, 1, None, closed="left"), Interval(Real, None, None, closed="neither")
FRACTION, SHARE = Interval(Real, 0, 1, closed="neither"), Interval(Real, 0, 1, closed="right")
PROBABILITY = Interval(Real, 0, 1, closed="both")


def below(limit: float) -> Interval:
    """Constraint of a parameter from 0 to less than a limit."""
    return Interval(Real, 0, limit, closed="left")


def one_of(*names: str) -> StrOptions:
    """Constraint of a parameter that takes one of some names."""
    return StrOptions(set(names))


class _Fitted(ClassifierMixin, BaseEstimator):
    """Learnt attributes, apart from the parameters of the dataclass below; not every method has the last ones."""

    classes_: NDArray[Any]
    n_features_in_: int
    single_label_: bool
    thresholds_: NDArray[np.float64]
    at_least_one_: bool
    thresholds_from_: str
    n_positives_: float
    n_positives_from_: str
    calibration_: Calibration
    scaler_: FeatureScaler
    history_: "History"
    soft_labels_: NDArray[np.float32]


#: Attributes that belong to one fit.
_FORGOTTEN = ("thresholds_", "at_least_one_", "thresholds_from_", "n_positives_", "n_positives_from_", "calibration_")


@dataclass(kw_only=True, eq=False, repr=False)
class OnePositiveClassifier(_Fitted):
    """Base of all methods: validates, remembers names, turns logits into what the caller asked for.

    Subclasses implement ``fit``, which ends with ``_cut_at``, and ``_logits(X)``.

    A 2-D indicator ``Y`` (1 observed, 0 unknown, −1 known absent) gives multi-label output: marginal
    probabilities and 0/1 sets. A 1-D ``y`` follows scikit-learn's multi-class contract: probabilities sum to one
    and ``predict`` returns one class.

    Parameters
    ----------
    n_positives : float or None
        Mean number of labels per row in the sets of ``predict``. None: taken from a fully labelled validation set if
        there is one, else 2 (fewer if there are only two labels), which is a guess: see ``n_positives_from_``.
    at_least_one : bool
        Put the most likely label into a set that would be empty.
    """

    n_positives: Any = None
    at_least_one: bool = True

    #: Of parameters that several methods have. A subclass adds its own, and inherits these.
    _parameter_constraints: ClassVar[Constraints] = {
        "validation_fraction": [FRACTION],
        "scale": [one_of(*SCALE_KINDS)],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
    }

    #: Complete labels in y: every 0 is a true negative, and a held-out part of y is fully labelled too.
    _y_is_full: ClassVar[bool] = False

    #: Whether a large memory-mapped X is read row by row; otherwise it is loaded, as any array.
    _reads_from_disk: ClassVar[bool] = False

    #: Whether the processes that torchrun started train one model together.
    _trains_together: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherited = super(cls, cls)._parameter_constraints
        cls._parameter_constraints = {**inherited, **cls.__dict__.get("_parameter_constraints", {})}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def _check_training(self, X: Any, y: Any) -> tuple[Any, Labels]:
        """Validate parameters and training data; sets ``classes_`` and the feature attributes."""
        self._validate_params()
        self._check_processes()
        X = self._validate_features(X, reset=True)
        if y is None and isinstance(X, DatasetRows):
            y = X.labels()
        labels = check_labels(y, complete=self._y_is_full)
        if len(labels.observed) != X.shape[0]:
            raise ValueError(f"X and y must have the same number of rows; got {X.shape[0]} and {len(labels.observed)}.")
        self.classes_ = labels.classes
        self.single_label_ = labels.single_label
        for name in _FORGOTTEN:
            self.__dict__.pop(name, None)
        return X, labels

    def _check_fit(
        self, X: Any, y: Any, validation: Any, kind: str
    ) -> tuple[Any, Labels, tuple[Any, NDArray[np.int8]] | None, NDArray[np.int8] | None]:
        """Validate the arguments of ``fit``: X, labels, validation rows, and the labels of these if complete."""
        X, labels = self._check_training(X, y)
        given = self._check_validation(validation, kind, labels)
        return X, labels, given, given[1] if given is not None and kind == "full" else None

    def _cut_at(
        self, logits: NDArray[np.float64], *, complete: NDArray[np.int8] | None = None, rows: str = "held-out rows"
    ) -> None:
        """Cut label sets so that rows with these logits have ``n_positives`` labels on average.

        Sets ``thresholds_``, and ``n_positives_`` unless the method has; notes both in ``history_.facts``. A 1-D y gets
        no thresholds. ``logits`` are best those of rows that the model was not trained on; ``rows`` names them.
        ``complete`` are complete labels of validation rows, whose mean number is the default of ``n_positives``.
        """
        if not hasattr(self, "n_positives_"):
            self.n_positives_, self.n_positives_from_ = resolve_n_positives(
                self.n_positives, len(self.classes_), complete, one_class=self.single_label_
            )
        found: dict[str, Any] = {"n_positives": self.n_positives_, "n_positives_from": self.n_positives_from_}
        if not self.single_label_:
            threshold = cardinality_threshold(expit(logits), self.n_positives_, at_least_one=self.at_least_one)
            self.thresholds_ = np.full(len(self.classes_), threshold)
            self.at_least_one_, self.thresholds_from_ = self.at_least_one, rows
            found["thresholds_from"] = rows
        history = getattr(self, "history_", None)
        if history is not None:
            history.facts |= found

    def _check_processes(self) -> None:
        """Raise if torchrun started several processes and this method has no use for them."""
        if launched() and not self._trains_together:
            raise ValueError(
                f"{type(self).__name__} does not share its work among processes, and torchrun started several: run it "
                "without torchrun, or take a method that trains a network, such as an or smile."
            )

    def _check_features(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._validate_features(X, reset=False)

    def _validate_features(self, X: Any, *, reset: bool) -> Any:
        """Return finite features of the right number; ``reset`` says that training sets it."""
        if is_dataset(X):
            raise TypeError(
                f"{type(self).__name__} needs its features as a matrix; got a {type(X).__name__}, which is read item "
                "by item. Pass an array, a CSR matrix or a DataFrame, or take a method that trains a network."
            )
        if self._reads_from_disk and on_disk(X):
            rows = DiskRows(validate_data(self, X, reset=reset, skip_check_array=True))
            check_finite(rows)
            return rows
        least = 2 if reset else 1
        return validate_data(
            self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=reset, ensure_min_samples=least
        )

    def _check_validation(self, validation: Any, kind: str, labels: Labels) -> tuple[Any, NDArray[np.int8]] | None:
        """Validate a validation set, a pair or a Dataset, against the training set; None when there is none."""
        if kind not in ("single", "full"):
            raise ValueError(f'validation_labels must be "single" or "full"; got {kind!r}.')
        if validation is None:
            return None
        if is_dataset(validation):
            validation = (validation, self._check_features(validation).labels())
        if not isinstance(validation, tuple) or len(validation) != 2:
            raise TypeError(f"validation must be a pair (X_val, Y_val); got {type(validation).__name__}.")
        features = self._check_features(validation[0])
        observed = check_validation_labels(validation[1], labels.classes)
        if len(observed) != features.shape[0]:
            raise ValueError(
                f"X_val and Y_val must have the same number of rows; got {features.shape[0]} and {len(observed)}."
            )
        return features, observed

    def _logits(self, X: Any) -> NDArray[np.float64]:
        """Return the logits of validated features, shape (n_samples, n_labels), in float64."""
        raise NotImplementedError(f"{type(self).__name__} must say how it scores rows.")

    def _final_logits(self, X: Any) -> NDArray[np.float64]:
        """Return the logits of features as given, calibrated if ``calibrate`` was called."""
        logits = self._logits(self._check_features(X))
        return self.calibration_.apply(logits) if hasattr(self, "calibration_") else logits

    def decision_function(self, X: Any) -> Any:
        """Logits, shape (n_samples, n_labels); for a 1-D y of two classes the difference, shape (n_samples,)."""
        logits = self._final_logits(X)
        if self.single_label_ and len(self.classes_) == 2:
            return logits[:, 1] - logits[:, 0]
        return self._wrap(logits, X)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each label, shape (n_samples, n_labels).

        Marginal probabilities of a multi-label problem do not sum to one; those of a 1-D y do.
        """
        logits = self._final_logits(X)
        return self._wrap(softmax(logits, axis=1) if self.single_label_ else expit(logits), X)

    def predict(self, X: Any) -> Any:
        """Predicted label sets as a 0/1 indicator (n_samples, n_labels), or classes (n_samples,) for a 1-D y.

        A label is in the set if its probability reaches ``thresholds_``. ``fit`` chooses them so that rows have
        ``n_positives`` labels on average; ``choose_thresholds`` chooses others.
        """
        logits = self._final_logits(X)
        if self.single_label_:
            return self.classes_[np.argmax(logits, axis=1)]
        if hasattr(self, "thresholds_"):
            return self._wrap(label_sets(expit(logits), self.thresholds_, at_least_one=self.at_least_one_), X)
        return self._wrap((logits >= 0).astype(np.int64), X)

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

        One positive per row tells how labels rank, not how many are true. Give exactly one of ``n_positives``,
        ``rates`` and ``labels``.

        Parameters
        ----------
        X : array, CSR matrix or DataFrame of shape (n_samples, n_features)
            Rows like those to be predicted, best not those of ``fit``, on which the model is too sure of itself.
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
            raise ValueError("give exactly one of n_positives, rates and labels. The thresholds follow it.")
        if n_positives is not None:
            threshold = cardinality_threshold(probabilities, n_positives, at_least_one=at_least_one)
            values = np.full(len(self.classes_), threshold)
        elif rates is not None:
            values = rate_thresholds(probabilities, self._by_label(rates))
        else:
            values = sample_thresholds(probabilities, check_validation_labels(labels, self.classes_), measure=measure)
        self.thresholds_, self.at_least_one_, self.thresholds_from_ = values, at_least_one, "choose_thresholds"
        return self

    def calibrate(self, X: Any, Y: Any) -> Self:
        """Calibrate probabilities on a small sample with complete labels; ``fit`` discards the calibration.

        Logits z of label j become a·z + b + o_j: labels share slope and intercept; a ridge keeps the offset o_j near
        0 where the sample shows few positives of the label. The order of rows by one label stays; that of labels within
        a row may change. Thresholds become ½, which gives the fewest wrong entries. A second call starts from the
        uncalibrated model.

        Parameters
        ----------
        X : array, CSR matrix or DataFrame of shape (n_samples, n_features)
            Rows like those to be predicted and not those of ``fit``; fifty are useful, ten the least.
        Y : indicator of shape (n_samples, n_labels)
            Their complete labels: what is not 1 is absent.

        Returns
        -------
        self, with ``calibration_``

        Examples
        --------
        >>> import onepos
        >>> from onepos.datasets import make_known_posterior
        >>> data = make_known_posterior(600, 5, 4, random_state=0)
        >>> model = onepos.make_classifier("linear", l2=1.0).fit(data.X[:400], data.observed[:400])
        >>> float(data.Y[400:].mean().round(2)), float(model.predict_proba(data.X[400:]).mean().round(2))
        (0.5, 0.25)
        >>> float(model.calibrate(data.X[400:500], data.Y[400:500]).predict_proba(data.X[400:]).mean().round(2))
        0.47
        """
        logits = self._logits(self._check_features(X))
        if self.single_label_:
            raise ValueError("calibration is for label sets; this model was fitted on one class per row (a 1-D y).")
        truth = check_validation_labels(Y, self.classes_)
        if len(truth) != len(logits):
            raise ValueError(f"X and Y must have the same number of rows; got {len(logits)} and {len(truth)}.")
        found = fit_calibration(logits, truth)
        if ((truth > 0).sum(axis=1) == 1).all():
            warnings.warn(
                f"every one of the {len(truth)} sample rows has exactly one label; calibration takes them for complete "
                "and the other labels for absent. Observed tags alone would make all probabilities too low.",
                LabelWarning,
                stacklevel=2,
            )
        self.calibration_ = found
        self.thresholds_, self.at_least_one_ = np.full(len(self.classes_), 0.5), self.at_least_one
        self.thresholds_from_ = "calibrate"
        return self

    def _by_label(self, rates: Any) -> Any:
        if not hasattr(rates, "keys"):
            return rates
        missing = [label for label in self.classes_.tolist() if label not in rates]
        if missing:
            raise ValueError(f"rates must have every label; missing: {', '.join(map(str, missing[:5]))}.")
        return [rates[label] for label in self.classes_.tolist()]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Average precision on fully labelled rows; for a 1-D y the accuracy, as scikit-learn has it.

        ``sample_weight`` has one weight per row. Rows without a positive label do not count.
        """
        check_is_fitted(self)
        if self.single_label_:
            return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))
        truth = y if sparse.issparse(y) else np.asarray(y)
        scores = np.asarray(self.decision_function(X))
        if sample_weight is None:
            return average_precision(truth, scores)
        weights = np.asarray(sample_weight, dtype=np.float64)
        if weights.shape != (len(scores),) or not (np.isfinite(weights) & (weights >= 0)).all():
            raise ValueError(f"sample_weight must be {len(scores)} numbers, one per row, finite and >= 0.")
        counted = np.where(np.asarray((truth > 0).sum(axis=1)).ravel() > 0, weights, 0.0)
        if not counted.any():
            raise ValueError("no row with a positive label has a weight above 0: there is nothing to score.")
        groups = [np.flatnonzero(counted == weight) for weight in np.unique(counted[counted > 0])]
        parts = [counted[rows].sum() * average_precision(truth[rows], scores[rows]) for rows in groups]
        return float(sum(parts) / counted.sum())

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the container of predictions: ``transform="pandas"`` for DataFrames with the label names as columns.

        ``"default"`` returns to NumPy arrays; None changes nothing.
        """
        if transform not in (None, "default", "pandas"):
            raise ValueError(f'transform must be "pandas", "default" or None; got {transform!r}.')
        if transform is not None:
            # scikit-learn's own attribute, so that clone() carries the choice over.
            self._sklearn_output_config = {"transform": transform}
        return self

    def _wrap(self, values: NDArray[Any], X: Any) -> Any:
        if getattr(self, "_sklearn_output_config", {}).get("transform") != "pandas":
            return values
        import pandas as pd

        return pd.DataFrame(values, columns=self.classes_, index=getattr(X, "index", None))

    # scikit-learn has two ways to a notebook; both show what was learnt above its own diagram.
    def _repr_html_inner(self) -> str:
        diagram: str = super()._repr_html_inner()
        if not hasattr(self, "classes_"):
            return diagram
        return facts_html(f"{type(self).__name__}, fitted", fitted_facts(self)) + diagram

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    def save(self, path: str | Path) -> Path:
        """Write the fitted model to one file that ``onepos.load`` opens; loading it runs no code."""
        from onepos.persistence import save

        return save(self, path)

    def _state(self) -> State:
        """Return what prediction needs: arrays by name, and facts that JSON can hold."""
        raise NotImplementedError(f"{type(self).__name__} must say what to store.")

    def _restore(self, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
        """Take back what ``_state`` gave."""
        raise NotImplementedError(f"{type(self).__name__} must say how to restore itself.")


def scaler_state(scaler: FeatureScaler) -> State:
    """Return a scaler as ``_state`` stores it."""
    if scaler.shift is None or scaler.factor is None:
        return {}, {"scale": scaler.kind}
    return {"scaler.shift": scaler.shift, "scaler.factor": scaler.factor}, {"scale": scaler.kind}


def stored_scaler(arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> FeatureScaler:
    """Take back what ``scaler_state`` gave."""
    return FeatureScaler(facts["scale"], arrays.get("scaler.shift"), arrays.get("scaler.factor"))


#: Label names shown; the others are counted.
_SHOWN = 5


def fitted_facts(estimator: Any) -> dict[str, str]:
    """Return what is worth seeing at a glance of a fitted classifier."""
    names = [str(name) for name in estimator.classes_[:_SHOWN]]
    more = ", …" if len(estimator.classes_) > _SHOWN else ""
    facts = {
        "labels": f"{len(estimator.classes_):,}: {', '.join(names)}{more}",
        "features": f"{estimator.n_features_in_:,}",
    }
    history = getattr(estimator, "history_", None)
    if history is not None and len(history):
        facts["epochs" if "epoch" in history.records[0] else "iterations"] = f"{len(history):,}"
        best = history.facts.get("best_epoch")
        score = next((name for name in history.facts if name.startswith("best_") and name != "best_epoch"), None)
        if best is not None and score is not None:
            metric = score.removeprefix("best_").replace("_", " ")
            facts["best validation score"] = f"{metric} {history.facts[score]:.4f} in epoch {best}"
    if hasattr(estimator, "thresholds_"):
        low, high = estimator.thresholds_.min(), estimator.thresholds_.max()
        facts["thresholds"] = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    elif not estimator.single_label_:
        facts["thresholds"] = "½"
    if hasattr(estimator, "calibration_"):
        facts["calibrated on"] = f"{estimator.calibration_.n_rows:,} rows with complete labels"
    return facts


def facts_html(title: str, facts: Mapping[str, str]) -> str:
    """Return a table of facts; every text is escaped."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in facts.items()
    )
    return f'<table><caption style="text-align:left">{escape(title)}</caption><tbody>{rows}</tbody></table>'
