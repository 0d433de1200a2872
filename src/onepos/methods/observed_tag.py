"""Any classifier of scikit-learn's kind, trained on the given tag of each row."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from onepos._utils.context import tell
from onepos._utils.parameters import SHARE, Constraints, one_of
from onepos._utils.validation import all_or_nothing, cases, numpy_generator
from onepos.methods._base import SharesClassifier, tag_weights
from onepos.rows.splits import can_hold_out, first_alike, splits

#: What ``smoothing`` is chosen from.
SMOOTHINGS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
#: Without rows to choose by.
_USUAL_SMOOTHING = 0.01


@dataclass(kw_only=True, eq=False, repr=False)
class ObservedTagClassifier(SharesClassifier):
    """A classifier of scikit-learn's kind, such as LightGBM, CatBoost or a pipeline, trained on the given tags.

    Its ``predict_proba`` estimates P(observed = j | x). As for the other methods that do so, the marginal probabilities
    of a row are shifted to add up to the number of positives. A row with several given tags counts once per tag, with
    the weight shared among the copies; without their weights, if the classifier takes no ``sample_weight``. Known
    absent labels are not used.

    The shares are (1 − a)·p_j + a·f_j; f are the observed frequencies. So a label that the classifier rules out keeps
    some probability, and labels are ranked by frequency where the classifier tells nothing.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``, or None
        It is cloned. None: scikit-learn's ``LogisticRegression``.
    smoothing : "auto" or float
        a. "auto": chosen by the likelihood of held-out given tags, which takes a fit more, or five with fewer than
        2,000 rows. A number needs no held-out rows.
    n_positives, at_least_one, validation_fraction, random_state
        As in ``LogisticClassifier``. ``random_state`` also seeds an estimator that has none set.

    Attributes
    ----------
    estimator_ : fitted classifier
        Its classes are the places of labels in ``classes_``.
    frequency_ : float array of shape (n_labels,)
        f, with half a row added to every label.
    smoothing_ : float
    n_positives_ : float

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from onepos import ObservedTagClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(300, 5, 4, random_state=0)
    >>> model = ObservedTagClassifier(estimator=HistGradientBoostingClassifier(max_iter=5), random_state=0)
    >>> model.fit(data.X, data.observed).predict_proba(data.X).shape
    (300, 4)
    """

    #: Why there is no file of it.
    not_stored: ClassVar[str] = (
        "it has a classifier of your own, which only pickle can store, and opening a pickle runs code. Keep the script "
        "that trains it, or, if you alone open the file, use joblib.dump"
    )

    estimator: Any = None
    smoothing: Any = "auto"
    validation_fraction: float = 0.1
    random_state: Any = None

    _parameter_constraints: ClassVar[Constraints] = {
        **SharesClassifier._parameter_constraints,
        "estimator": [object, None],
        "smoothing": [one_of("auto"), SHARE],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self._classifier).input_tags.sparse
        return tags

    @property
    def _classifier(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    @all_or_nothing
    def fit(
        self, X: Any, y: Any, *, validation: tuple[Any, Any] | None = None, validation_labels: str = "single"
    ) -> Self:
        """Fit on given tags; choose the smoothing on ``validation`` (see ``NeuralClassifier.fit``)."""
        if not callable(getattr(self._classifier, "predict_proba", None)):
            raise TypeError(
                f"estimator must be a classifier with predict_proba; got {self._classifier!r:.80}. For a class, make "
                "an object of it."
            )
        X, labels, given = self._begin(X, y, validation, validation_labels)
        generator = numpy_generator(self.random_state)
        observed, rows = labels.observed, np.flatnonzero(labels.labelled)
        counts = tag_weights(observed).sum(axis=0) + 0.5
        self.frequency_: NDArray[np.float64] = counts / counts.sum()
        seed = None if self.random_state is None else int(generator.integers(2**31 - 1))
        self.estimator_ = self._trained(X[rows], observed[rows], seed)
        tell(0.5)
        self.smoothing_ = _USUAL_SMOOTHING if isinstance(self.smoothing, str) else float(self.smoothing)
        judged, where = X[rows], "training rows"
        p, truth = None, observed[:0]
        if given is not None:
            judged, where = given[0], "validation rows"
            p, truth = self._predicted(self.estimator_, judged), given[1]
        elif isinstance(self.smoothing, str) and can_hold_out(observed):
            where = "held-out rows"
            pairs = splits(observed, self.validation_fraction, generator, alike=first_alike(X))
            parts = []
            for place, (train, held) in enumerate(pairs):
                train = train[labels.labelled[train]]
                parts.append(self._predicted(self._trained(X[train], observed[train], seed), X[held]))
                tell(0.5 + 0.5 * (place + 1) / len(pairs))
            p, truth = np.concatenate(parts), observed[np.concatenate([held for _, held in pairs])]
        if p is not None and isinstance(self.smoothing, str) and (truth > 0).any():
            self.smoothing_ = self._best_smoothing(p, truth)
        p = self._predicted(self.estimator_, judged) if p is None else p
        self._cut_at(self._marginal(self._smoothed(p)), rows=where)
        return self

    def _trained(self, X: Any, observed: NDArray[np.int8], seed: int | None) -> Any:
        """Return the classifier, fitted on a copy of each row per given tag."""
        rows, tags, weights = cases(observed)
        if len(np.unique(tags)) == 1:
            return DummyClassifier(strategy="prior").fit(X[rows], tags)
        made = clone(self._classifier)
        if seed is not None:
            seeds = {name: value for name, value in made.get_params().items() if name.endswith("random_state")}
            made.set_params(**{name: seed for name, value in seeds.items() if value is None})
        name = _weight_parameter(made) if len(rows) > len(observed) else None
        return made.fit(X[rows], tags, **({} if name is None else {name: weights}))

    def _predicted(self, estimator: Any, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of an estimator, 0 for labels that it has not seen."""
        p = np.zeros((X.shape[0], len(self.classes_)))
        p[:, estimator.classes_] = estimator.predict_proba(X)
        if not (np.isfinite(p).all() and (p >= 0).all()):
            raise ValueError(
                f"predict_proba of {type(self._classifier).__name__} must return numbers from 0 to 1; got "
                f"{'NaN or infinity' if not np.isfinite(p).all() else p.min()}."
            )
        return p

    def _best_smoothing(self, p: NDArray[np.float64], truth: NDArray[np.int8]) -> float:
        """Return the smoothing under which the given tags are the likeliest."""
        weights = tag_weights(truth)
        return max(SMOOTHINGS, key=lambda a: float(weights.multiply(self._smoothed(p, a)).sum()))

    def _smoothed(self, p: NDArray[np.float64], smoothing: float | None = None) -> NDArray[np.float64]:
        a = self.smoothing_ if smoothing is None else smoothing
        return np.log(np.maximum((1 - a) * p + a * self.frequency_, np.finfo(np.float64).tiny))

    def _log_shares(self, X: Any) -> NDArray[np.float64]:
        return self._smoothed(self._predicted(self.estimator_, X))


def _weight_parameter(estimator: Any) -> str | None:
    """Return under which name ``fit`` takes weights of rows; None if it takes none."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = None if last is None or isinstance(last, str) else _weight_parameter(last)
        return None if inner is None else f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None
