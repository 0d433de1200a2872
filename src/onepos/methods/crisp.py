"""CRISP: class priors estimated from single positives, and the risk that they make computable (Liu et al., 2025)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from onepos._utils import storage
from onepos._utils.parameters import COUNT, COUNT_OR_ZERO, FRACTION, POSITIVE_OR_ZERO, Constraints, one_of
from onepos.methods._neural import Context, NeuralClassifier
from onepos.training import Batch, Objective, TrainingRows
from onepos.training.losses import assume_negative
from onepos.training.networks import outputs_of_all


def class_prior(
    scores: NDArray[np.floating],
    positive: NDArray[np.bool_],
    weights: NDArray[np.floating] | None = None,
    *,
    confidence: float = 0.01,
    slack: float = 0.01,
) -> float:
    """Estimate the share of rows that have a label, from f(x) of all rows and the rows on which it was observed.

    ``weights`` are 1/e(x) of the observed rows, up to a factor; ``confidence`` is δ, ``slack`` is τ of the paper. The
    estimate is at least the share of rows on which the label was observed.
    """
    n_samples, n_positive = len(scores), int(positive.sum())
    if n_positive == 0:
        return 0.0
    weights = np.ones(n_positive) if weights is None else np.asarray(weights, dtype=np.float64)
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    shares = np.zeros(n_samples)
    shares[positive] = weights / weights.sum()
    # A threshold takes all rows of equal score or none: count up to the last row of each score.
    last = np.append(ranked[1:] != ranked[:-1], True)
    above = (np.flatnonzero(last) + 1) / n_samples
    above_positive = np.cumsum(shares[order])[last]
    counted = above_positive > 0
    above, above_positive = above[counted], above_positive[counted]
    effective = weights.sum() ** 2 / np.square(weights).sum()
    radius = math.sqrt(math.log(4.0 / confidence) / 2.0) * (n_samples**-0.5 + effective**-0.5)
    best = int(np.argmin((above + (1.0 + slack) * radius) / above_positive))
    return float(np.clip(above[best] / above_positive[best], n_positive / n_samples, 1.0))


def class_prior_risk(
    logits: Tensor, observed: Tensor, priors: Tensor, weights: Tensor, means: Tensor | None = None
) -> Tensor:
    """R̂ = Σ_j [ (2π_j/n_j) Σ_{i∈S_j} (1 − f_ij) + | mean_i f_ij − π_j | ], on a batch; f = σ(logits).

    Entries known to be absent add their own absolute loss f; the paper has none. ``weights``, (batch, n_labels), are
    2π̂_j·n/n_j at the observed entries and 0 elsewhere. ``means`` of f over all rows, if given, tell on which side of π̂
    the mean is, and the batch gives only the direction: a rare label is in few batches.
    """
    scores = torch.sigmoid(logits)
    found = (weights * torch.sigmoid(-logits)).sum() / logits.shape[0]
    mean = scores.mean(dim=0)
    if means is not None:
        mean = means + (mean - mean.detach())
    absent = (scores * (observed < 0)).sum() / logits.shape[0]
    return found + (mean - priors).abs().sum() + absent


_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(32)


def selection_propensity(
    probabilities: NDArray[np.floating], rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> NDArray[np.float64]:
    """e_j(x) = E[ 1/|Y| | x, y_j = 1 ] at the given entries, labels independent given x, shape (n_entries,).

    As 1/(1+N) = ∫₀¹ u^N du, e_j(x) = ∫₀¹ Π_{k≠j} (1 − p_k + p_k·u) du, a polynomial of degree c − 1: Gauss and
    Legendre's rule with 32 nodes is exact up to 64 labels, and off by less than 1e-9 at a thousand if 50 are expected.
    """
    result = np.zeros(len(rows))
    others = np.asarray(probabilities, dtype=np.float64)[rows]
    others[np.arange(len(rows)), columns] = 0.0
    for node, weight in zip(_NODES, _NODE_WEIGHTS, strict=True):
        # Σ log1p(−p·(1−u)): the nodes lie inside (−1, 1), so the argument stays above −1 even at p = 1.
        result += 0.5 * weight * np.exp(np.log1p(-others * (0.5 * (1.0 - node))).sum(axis=1))
    return result


#: Rows that the running mean of the scores looks back on.
_MEAN_ROWS = 1000


class CRISPObjective(Objective):
    """After an AN warm-up: estimate π̂ from the network's scores, then minimise the risk that π̂ gives."""

    running = ("weights", "means")
    priors: Tensor
    weights: Tensor
    means: Tensor

    def __init__(self, network: nn.Module, rows: TrainingRows, method: "CRISPClassifier") -> None:
        super().__init__(network)
        self.rows, self.batch_mean = rows, method.mean == "batch"
        self.warm_up_epochs, self.refresh_epochs = method.warm_up_epochs, method.refresh_epochs
        names = ("confidence", "slack", "selection_correction")
        self.estimator: Any = {name: getattr(method, name) for name in names} | {"known": method.single_label_}
        zeros = torch.zeros(rows.observed.shape[1], device=rows.observed.device)
        #: Part of the state, so that the restored epoch has its own.
        self.register_buffer("priors", zeros)
        self.register_buffer("weights", zeros[:0], persistent=False)
        self.register_buffer("means", zeros.clone(), persistent=False)

    def begin_epoch(self, epoch: int) -> None:
        """Note the epoch and estimate the priors when they are due."""
        super().begin_epoch(epoch)
        since = epoch - self.warm_up_epochs
        if since >= 0 and since % self.refresh_epochs == 0:
            self.estimate()

    def estimate(self) -> None:
        """Set priors, weights of the observed entries and means of the scores from the network as it is."""
        trainable = self.rows.trainable
        scores = torch.sigmoid(outputs_of_all(self.network, self.rows)[trainable])
        positive = (self.rows.observed[trainable] > 0).cpu().numpy()
        priors, weights = estimate_priors(scores.cpu().numpy(), positive, **self.estimator)
        everywhere = torch.zeros(self.rows.observed.shape, device=trainable.device)
        everywhere[trainable] = torch.from_numpy(weights).to(everywhere)
        self.weights, self.means = everywhere, scores.mean(dim=0)
        self.priors = torch.from_numpy(priors).to(everywhere)

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, one step."""
        logits = self.network(batch.features)
        if self.epoch < self.warm_up_epochs:
            yield "risk", assume_negative(logits, batch.observed)
            return
        means = None
        if not self.batch_mean:
            share = min(1.0, len(logits) / _MEAN_ROWS)
            self.means = torch.lerp(self.means, torch.sigmoid(logits.detach()).mean(dim=0), share)
            means = self.means
        yield "risk", class_prior_risk(logits, batch.observed, self.priors, self.weights[batch.rows], means)

    def describe_epoch(self) -> dict[str, float]:
        """Σ_j π̂_j, the number of positives that the priors imply; 0 before there are any."""
        return {"n_positives": float(self.priors.sum())}


def estimate_priors(
    scores: NDArray[np.float32],
    positive: NDArray[np.bool_],
    *,
    selection_correction: bool = False,
    known: bool = False,
    **options: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Priors of all labels, shape (n_labels,), and the risk's weights 2π̂·n/n_j of entries, (n_samples, n_labels).

    With ``selection_correction`` an observed entry counts by 1/e_j(x). ``known``: rows have one class, so that counting
    is enough.
    """
    n_samples, n_labels = scores.shape
    rows, columns = np.nonzero(positive)
    inverse = positive.astype(np.float64)
    if selection_correction:
        inverse[rows, columns] = 1.0 / selection_propensity(scores, rows, columns)
    if known:
        priors = positive.mean(axis=0)
    else:
        by_label = zip(scores.T, positive.T, inverse.T, strict=True)
        priors = np.array([class_prior(f, seen, weight[seen], **options) for f, seen, weight in by_label])
    total = inverse.sum(axis=0)
    return priors, inverse * np.divide(2.0 * priors * n_samples, total, out=np.zeros(n_labels), where=total > 0)


@dataclass(kw_only=True, eq=False, repr=False)
class CRISPClassifier(NeuralClassifier):
    """CRISP: estimate how often each label is there, then minimise the risk that this makes computable. Key: ``crisp``.

    Liu et al., "Can Class-Priors Help Single-Positive Multi-Label Learning?", arXiv 2309.13886, NeurIPS 2025. Its
    Equation (8), a bias on the logits of rare labels, is left out: its form is not public. For a 1-D y, where each row
    has one class, the priors are the observed shares.

    Parameters
    ----------
    warm_up_epochs : int
        Epochs of assume-negative training before the first estimate; counted in ``max_epochs``.
    refresh_epochs : int
        Epochs from one estimate of the priors to the next.
    confidence, slack : float
        δ and τ of the estimator: how sure, and how careful, the choice of its threshold is.
    selection_correction : bool
        Weight an observed label by 1/e(x), e(x) the classifier's estimate of E[1/|Y| | x, y = 1]: for data whose
        observed label is a uniform draw from the row's labels. False, the paper's: observed labels are taken
        for a random sample of all.
    mean : {"batch", "set"}
        Whose mean of f the risk compares with π̂: the batch's, as the formula reads on mini-batches, or a running
        mean over about 1000 rows, of which a batch gives the direction only. Other parameters: ``NeuralClassifier``.

    Attributes
    ----------
    class_priors_ : float64 array of shape (n_labels,)
        π̂ of the restored epoch; of the trained network if that epoch lies in the warm-up. ``n_positives`` in
        ``history_`` is their sum.

    Examples
    --------
    >>> from onepos.methods.crisp import CRISPClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = CRISPClassifier(max_epochs=5, random_state=0).fit(data.X, data.observed)
    >>> bool((model.class_priors_ >= data.observed.mean(axis=0)).all())
    True
    """

    _stored: ClassVar[storage.Rules] = {"class_priors_": storage.Array("labels", "f8", 0, 1)}

    warm_up_epochs: int = 3
    refresh_epochs: int = 1
    confidence: float = 0.01
    slack: float = 0.01
    selection_correction: bool = False
    mean: str = "batch"

    _parameter_constraints: ClassVar[Constraints] = {
        **NeuralClassifier._parameter_constraints,
        "warm_up_epochs": [COUNT_OR_ZERO],
        "refresh_epochs": [COUNT],
        "confidence": [FRACTION],
        "slack": [POSITIVE_OR_ZERO],
        "selection_correction": ["boolean"],
        "mean": [one_of("batch", "set")],
    }

    def _make_objective(self, context: Context) -> Objective:
        return CRISPObjective(context.network, context.rows, self)

    def _finish(self, objective: Objective, context: Context) -> None:
        assert isinstance(objective, CRISPObjective)
        if not bool(objective.priors.any()):
            objective.estimate()
        self.class_priors_ = objective.priors.cpu().numpy().astype(np.float64)
