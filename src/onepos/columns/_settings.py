"""A method's estimator from what the user set, with mistakes named before anything is trained."""

from typing import TYPE_CHECKING, Any

from onepos.registry import METHODS, make_classifier

if TYPE_CHECKING:
    from onepos.methods._base import OnePositiveClassifier


def make_estimator(
    method: str, params: dict[str, Any], random_state: int | None, n_positives: float | None
) -> tuple["OnePositiveClassifier", bool]:
    """Build the estimator; ``random_state`` is given to methods that draw random numbers.

    Also returned: whether ``n_positives`` is left to a threshold, because the method itself has no use for it.
    """
    known = make_classifier(method).get_params(deep=False)
    if n_positives is not None and "n_positives" in known:
        params.setdefault("n_positives", n_positives)
    unknown = [name for name in params if name not in known]
    if unknown:
        with_it = [key for key in METHODS if unknown[0] in METHODS[key].load_class()._get_param_names()]
        elsewhere = f" (a setting of {', '.join(with_it)})" if with_it else ""
        raise ValueError(
            f"method {method!r} has no setting {unknown[0]!r}{elsewhere}; it has: {', '.join(known) or 'none'}."
        )
    if "random_state" in known:
        params.setdefault("random_state", random_state)
    estimator = make_classifier(method, **params)
    estimator._validate_params()
    estimator._check_processes()
    return estimator, n_positives is not None and "n_positives" not in known
