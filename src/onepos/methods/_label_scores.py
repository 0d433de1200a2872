"""Probabilities of labels from another source, checked against the training labels."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from onepos._validation import Labels


def check_label_scores(label_scores: Any, labels: Labels, method: str, *, used: bool) -> Tensor | None:
    """Return the scores as float32, shape (n_samples, n_labels), columns in the order of training; None if none came.

    Parameters
    ----------
    label_scores : array or DataFrame of shape (n_samples, n_labels), or None
        Between 0 and 1, or NaN. The columns of a frame are matched by name if the labels have names.
    labels : Labels
    method : str
        The estimator's name, for the message.
    used : bool
        Whether the estimator can make use of scores.
    """
    if label_scores is None:
        return None
    if not used:
        raise ValueError(
            f"{method} cannot use label_scores. Leave them out, or take a method that can: role, em, em-apl."
        )
    names = labels.classes.tolist()
    if hasattr(label_scores, "columns"):
        missing = [name for name in names if name not in label_scores.columns]
        if missing or len(label_scores.columns) != len(names):
            raise ValueError(
                f"the columns of label_scores must be the labels of y, {names[:5]}…; "
                f"got {label_scores.columns.tolist()[:5]}…"
            )
        label_scores = label_scores[names]
    scores = np.asarray(label_scores, dtype=np.float32)
    if scores.shape != labels.observed.shape:
        raise ValueError(
            f"label_scores must have a row for each row of y and a column for each label, shape "
            f"{labels.observed.shape}; got {scores.shape}."
        )
    outside = scores[~(np.isnan(scores) | ((scores >= 0) & (scores <= 1)))]
    if outside.size:
        raise ValueError(
            f"label_scores must be probabilities, between 0 and 1, or NaN where nothing is said; got {outside[0]}. "
            "Logits become probabilities by scipy.special.expit."
        )
    return torch.from_numpy(np.ascontiguousarray(scores))
