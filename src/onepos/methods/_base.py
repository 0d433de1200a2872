"""What all classifiers share: scikit-learn's contract for a 1-D y, the multi-label one for a 2-D y."""

from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, validate_data

from onepos._utils import storage
from onepos._utils.machine import launched
from onepos._utils.parameters import AT_LEAST_ONE, FRACTION, Constraints, check_parameters, one_of
from onepos._utils.validation import Labels, cases, check_labels, check_validation_labels, csr
from onepos.label_sets.calibration import Calibration
from onepos.label_sets.pooling import marginal_logits
from onepos.label_sets.thresholds import label_sets, resolve_n_positives
from onepos.methods._label_sets import LabelSetsMixin
from onepos.metrics import average_precision, row_values
from onepos.rows.scaling import SCALE_KINDS, FeatureScaler, check_magnitude
from onepos.rows.stored import DatasetRows, DiskRows, check_finite, is_dataset, on_disk

if TYPE_CHECKING:
    from onepos.training import History

#: Validation rows and their labels, if there are any.
Given = tuple[Any, NDArray[np.int8]] | None


class _Fitted(LabelSetsMixin, ClassifierMixin, BaseEstimator):
    """Learnt attributes, apart from the parameters of the dataclass below; not every method has the last ones."""

    n_features_in_: int
    scaler_: FeatureScaler
    history_: "History"
    n_iter_: int
    validation_scores_: dict[float, float]
    soft_labels_: NDArray[np.float32]


#: Most entries of labels that are made dense for a method that needs it.
_MOST_LABELS = 1 << 30
#: Attributes that belong to one fit.
_FORGOTTEN = ("thresholds_", "at_least_one_", "thresholds_from_", "n_positives_", "n_positives_from_", "calibration_")


@dataclass(kw_only=True, eq=False, repr=False)
class OnePositiveClassifier(_Fitted):
    """Base of all methods. Subclasses implement ``fit``, which ends with ``_cut_at``, and ``_logits(X)``.

    A 2-D indicator ``Y`` (1 observed, 0 unknown, −1 known absent) gives multi-label output: marginal probabilities and
    0/1 sets. A 1-D ``y`` follows scikit-learn's contract for one class per row: probabilities sum to one, and
    ``predict`` returns one class.

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

    #: Of parameters that several methods have. A subclass adds those of its own.
    _parameter_constraints: ClassVar[Constraints] = {
        "n_positives": [AT_LEAST_ONE, None],
        "at_least_one": ["boolean"],
        "validation_fraction": [FRACTION],
        "scale": [one_of(*SCALE_KINDS)],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    #: What a model file holds: see ``onepos._utils.storage``. A subclass names what it learns beside these.
    _stored: ClassVar[storage.Rules] = {
        "_params": storage.each(storage.JSON),
        "n_features_in_": storage.Length("features"),
        "classes_": storage.LabelNames(),
        "single_label_": storage.TRUTH,
        "feature_names_in_": storage.IfSet(storage.List(storage.TEXT, "features")),
        "thresholds_": storage.IfSet(storage.Array("labels", "f8", 0, 1 + 1e-9)),
        "at_least_one_": storage.IfSet(storage.TRUTH),
        "thresholds_from_": storage.IfSet(storage.TEXT),
        "n_positives_": storage.IfSet(storage.POSITIVE),
        "n_positives_from_": storage.IfSet(storage.TEXT),
        "calibration_": storage.IfSet(storage.Part(Calibration)),
    }

    #: Why there is no graph of the logits, and which function of these are the probabilities.
    _no_graph: ClassVar[str] = "predicts in a way that onepos cannot write as a graph"
    _graph_output: ClassVar[str] = "Sigmoid"

    #: Complete labels in y: every 0 is a true negative, and a held-out part of y is fully labelled too.
    _y_is_full: ClassVar[bool] = False
    #: Whether a large memory-mapped X is read row by row; otherwise it is loaded, as any array.
    _reads_from_disk: ClassVar[bool] = False
    #: Whether labels may be a CSR array; otherwise they are made dense.
    _takes_sparse_labels: ClassVar[bool] = False
    #: Whether the processes that torchrun started train one model together.
    _trains_together: ClassVar[bool] = False

    def _validate_params(self) -> None:
        check_parameters(type(self).__name__, self.get_params(deep=False), self._parameter_constraints)

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
        n_rows, n_labels = labels.observed.shape
        if n_rows != X.shape[0]:
            raise ValueError(f"X and y must have the same number of rows; got {X.shape[0]} and {n_rows}.")
        if sparse.issparse(labels.observed) and not self._takes_sparse_labels:
            if n_rows * n_labels > _MOST_LABELS:
                raise ValueError(
                    f"{type(self).__name__} needs labels as a dense matrix, and {n_rows:,} rows × {n_labels:,} labels "
                    "are too many: take auto, centroid or capped, or fewer rows."
                )
            labels = replace(labels, observed=labels.observed.toarray())
        self.classes_, self.single_label_ = labels.classes, labels.single_label
        for name in _FORGOTTEN:
            self.__dict__.pop(name, None)
        return X, labels

    def _check_fit(self, X: Any, y: Any, validation: Any, kind: str) -> tuple[Any, Labels, Given, Any]:
        """Validate the arguments of ``fit``: X, labels, validation rows, and the labels of these if complete."""
        X, labels = self._check_training(X, y)
        given = self._check_validation(validation, kind, labels)
        return X, labels, given, given[1] if given is not None and kind == "full" else None

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
        """Return features that float32 can hold, of the right number; ``reset`` says that training sets it."""
        if is_dataset(X):
            raise TypeError(
                f"{type(self).__name__} needs its features as a matrix; got a {type(X).__name__}, which is read item "
                "by item. Pass an array, a CSR matrix or a DataFrame, or take a method that trains a network."
            )
        if self._reads_from_disk and on_disk(X):
            rows = DiskRows(validate_data(self, X, reset=reset, skip_check_array=True))
            check_finite(rows)
            return rows
        kinds: Any = {"accept_sparse": "csr", "dtype": (np.float64, np.float32), "ensure_min_samples": 1 + reset}
        with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn adds up all entries
            return check_magnitude(validate_data(self, X, reset=reset, **kinds))

    def _check_validation(self, validation: Any, kind: str, labels: Labels) -> Given:
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
        if observed.shape[0] != features.shape[0]:
            raise ValueError(
                f"X_val and Y_val must have the same number of rows; got {features.shape[0]} and {observed.shape[0]}."
            )
        return features, observed

    def _graph_logits(self, graph: Any) -> str:
        """Add to a graph of ``onepos.persistence.onnx`` what ``_logits`` computes; return the name of the result."""
        raise NotImplementedError(f"{type(self).__name__} {self._no_graph}")

    def decision_function(self, X: Any) -> Any:
        """Logits, shape (n_samples, n_labels); for a 1-D y of two classes the difference, shape (n_samples,)."""
        logits = self._final_logits(X)
        if self.single_label_ and len(self.classes_) == 2:
            return logits[:, 1] - logits[:, 0]
        return self._wrap(logits, X)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each label, (n_samples, n_labels); only those of a 1-D y sum to one."""
        logits = self._final_logits(X)
        return self._wrap(softmax(logits, axis=1) if self.single_label_ else expit(logits), X)

    def predict(self, X: Any) -> Any:
        """Predicted label sets as a 0/1 indicator (n_samples, n_labels), or classes (n_samples,) for a 1-D y.

        A label is in the set if its probability reaches ``thresholds_``, chosen by ``fit`` or ``choose_thresholds``.
        """
        logits = self._final_logits(X)
        if self.single_label_:
            return self.classes_[np.argmax(logits, axis=1)]
        if hasattr(self, "thresholds_"):
            return self._wrap(label_sets(expit(logits), self.thresholds_, at_least_one=self.at_least_one_), X)
        return self._wrap((logits >= 0).astype(np.int64), X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Average precision on fully labelled rows that have a label; for a 1-D y the accuracy, as in scikit-learn."""
        check_is_fitted(self)
        if self.single_label_:
            return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))
        scores = np.asarray(self.decision_function(X))
        if sample_weight is None:
            return average_precision(y, scores)
        weights = np.asarray(sample_weight, dtype=np.float64)
        if weights.shape != (len(scores),) or not (np.isfinite(weights) & (weights >= 0)).all():
            raise ValueError(f"sample_weight must be {len(scores)} numbers, one per row, finite and >= 0.")
        values = row_values(y, scores, ("average_precision",))["average_precision"]
        counted = ~np.isnan(values) & (weights > 0)
        if not counted.any():
            raise ValueError("no row with a positive label has a weight above 0: there is nothing to score.")
        return float(np.average(values[counted], weights=weights[counted]))

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the container of predictions: "pandas" for DataFrames, "default" for arrays, None changes nothing."""
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

    def save(self, path: str | Path) -> Path:
        """Write the fitted model to one file that ``onepos.load`` opens; loading it runs no code."""
        from onepos.persistence import save

        return save(self, path)

    @property
    def _params(self) -> dict[str, Any]:
        """Parameters as a file has them: without a generator, as a loaded model is not trained further."""
        params: dict[str, Any] = self.get_params(deep=False)
        seed = params.get("random_state")
        return params | ({} if seed is None or isinstance(seed, Integral) else {"random_state": None})

    @classmethod
    def _from_stored(cls, fields: dict[str, Any]) -> Self:
        """Return a fitted estimator; a device that is not there becomes "cpu"."""
        stored = fields.pop("_params")
        params: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in stored.items()}
        made = cls(**params)
        if isinstance(params.get("device"), str):
            from onepos.training.machine import usable_device

            made.set_params(device=usable_device(params["device"]))
        made._validate_params()
        if fields["single_label_"] and ("thresholds_" in fields or "calibration_" in fields):
            raise ValueError("thresholds_ and calibration_ are for label sets, and single_label_ is true")
        if ("thresholds_" in fields) != ("at_least_one_" in fields):
            raise ValueError("thresholds_ and at_least_one_ must come together")
        if "feature_names_in_" in fields:
            fields["feature_names_in_"] = np.array(fields["feature_names_in_"], dtype=object)
        made.__dict__.update(fields)
        return made


class SharesClassifier(OnePositiveClassifier):
    """Subclasses implement ``fit``, which begins with ``_begin``, and ``_log_shares``."""

    _stored: ClassVar[storage.Rules] = {"n_positives_": storage.POSITIVE}

    def _begin(self, X: Any, y: Any, validation: Any, kind: str) -> tuple[Any, Labels, Given]:
        """Validate the arguments of ``fit`` and set the number of positives."""
        X, labels, given, complete = self._check_fit(X, y, validation, kind)
        self.n_positives_, self.n_positives_from_ = resolve_n_positives(
            self.n_positives, len(labels.classes), complete, one_class=labels.single_label
        )
        return X, labels, given

    def _log_shares(self, X: Any) -> NDArray[np.float64]:
        """Log of P(observed = j | x) up to a number per row, shape (n_samples, n_labels), of validated features."""
        raise NotImplementedError(f"{type(self).__name__} must estimate which label would be observed.")

    def _logits(self, X: Any) -> NDArray[np.float64]:
        return self._marginal(self._log_shares(X))

    def _ranking(self, X: Any) -> NDArray[np.float64]:
        if len(self.classes_) == 1:
            return self._logits(X)
        return np.asarray(log_softmax(self._log_shares(X), axis=1))

    def _level(self, ranking: NDArray[np.float64]) -> NDArray[np.float64]:
        return ranking if len(self.classes_) == 1 else self._marginal(ranking)

    def _marginal(self, log_shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shift each row so that its probabilities add up to the number of positives; not for a 1-D y."""
        if self.single_label_:
            return log_shares
        return marginal_logits(log_shares, min(self.n_positives_, len(self.classes_) - 0.5))


def tag_weights(observed: Any) -> Any:
    """Share a row's weight among its given tags, as a CSR array; a row without any has zeros."""
    rows, labels, share = cases(observed)
    return csr((share, (rows, labels)), shape=observed.shape)
