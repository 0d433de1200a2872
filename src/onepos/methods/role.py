"""ROLE and EPR: online label estimation, and expected positive regularisation alone (Cole et al., CVPR 2021)."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from onepos._utils.parameters import POSITIVE_OR_ZERO, Constraints
from onepos.methods._neural import Context, GraphClassifier
from onepos.training import Batch, LossObjective, Objective, Rows
from onepos.training.losses import binary_cross_entropy

_MEAN_DECAY, _SQUARE_DECAY = 0.9, 0.999  # β₁, β₂
_HORIZON = 256  # (β₁/√β₂)^256 = 2e-12
_ROWS = 4096


class LabelMatrix(nn.Module):
    """Logits Θ of shape (n_samples, n_labels), trained by Adam at the cost of the batch's rows.

    Adam's state is part of ``state_dict``. The result is that of ``torch.optim.Adam`` over all of Θ, but without its ε:
    in steps without a gradient ε has no closed form, and it only matters for gradients below about 1e-7.
    """

    state: Tensor
    last: Tensor
    now: Tensor
    pull: Tensor
    ahead: Tensor
    shrink: Tensor

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        #: Θ, m and v of every row, shape (n_samples, 3, n_labels): one gather fetches all three.
        self.register_buffer("state", torch.stack([logits, *2 * [torch.zeros_like(logits)]], dim=1))
        #: The step up to which a row has been computed, and the step that Θ is in.
        self.register_buffer("last", torch.zeros(len(logits), dtype=torch.int64, device=logits.device))
        self.register_buffer("now", torch.zeros((), dtype=torch.int64))
        #: rate(u)·w(u) of every step u so far; a fact about the run, not a state.
        self.register_buffer("pull", logits.new_zeros(1024), persistent=False)
        ahead = torch.arange(1, _HORIZON + 1, device=logits.device)
        self.register_buffer("ahead", ahead, persistent=False)
        factor = math.log(_MEAN_DECAY) - 0.5 * math.log(_SQUARE_DECAY)
        self.register_buffer("shrink", torch.exp(factor * ahead.to(logits.dtype)), persistent=False)

    @torch.no_grad()
    def read(self, rows: Tensor) -> Tensor:
        """Θ of the given rows as of now, shape (batch, n_labels)."""
        return self._present(rows, int(self.now))[:, 0]

    @torch.no_grad()
    def step(self, rows: Tensor, gradient_at: Callable[[Tensor], Tensor], rate: float, now: int) -> Tensor:
        """Take Adam's step number ``now``, of a gradient that is zero in other rows; return the rows' Θ before it."""
        logits, mean, square = self._present(rows, now - 1).unbind(dim=1)
        gradient = gradient_at(logits)
        while now >= len(self.pull):
            self.pull = torch.cat([self.pull, torch.zeros_like(self.pull)])
        self.now.fill_(now)
        # w(u) = √(1−β₂^u) / (1−β₁^u), Adam's correction of its bias
        correction = math.sqrt(-math.expm1(now * math.log(_SQUARE_DECAY))) / -math.expm1(now * math.log(_MEAN_DECAY))
        self.pull[now] = pull = rate * correction
        mean = torch.lerp(mean, gradient, 1.0 - _MEAN_DECAY)
        square = torch.lerp(square, gradient.square(), 1.0 - _SQUARE_DECAY)
        moved = logits - pull * _ratio(mean, square)
        self.state.index_copy_(0, rows, torch.stack([moved, mean, square], dim=1))
        self.last.index_fill_(0, rows, now)
        return logits

    @torch.no_grad()
    def settled(self) -> Tensor:
        """Θ of all rows as of now, shape (n_samples, n_labels)."""
        rows = torch.arange(len(self.state), device=self.state.device)
        return torch.cat([self.read(part) for part in torch.split(rows, _ROWS)])

    def _present(self, rows: Tensor, now: int) -> Tensor:
        """Θ, m and v of the given rows in step ``now``: since ``last`` their gradient was zero."""
        state, last = self.state.index_select(0, rows), self.last.index_select(0, rows)
        steps = last[:, None] + self.ahead  # (batch, horizon)
        # Steps still to come (known already if an earlier epoch has been restored) count as step 0, whose pull is 0.
        steps = steps.masked_fill_(steps > now, 0)
        travel = (self.pull.take(steps) @ self.shrink)[:, None]
        gap = (now - last).to(state.dtype)[:, None]
        logits, mean, square = state.unbind(dim=1)
        # Set to zero before it gets denormal: such numbers are slow and mean nothing here.
        fading = torch.exp(math.log(_MEAN_DECAY) * gap).masked_fill_(gap > 2 * _HORIZON, 0.0)
        settled = logits - travel * _ratio(mean, square)
        return torch.stack([settled, mean * fading, square * torch.exp(math.log(_SQUARE_DECAY) * gap)], dim=1)


def _ratio(mean: Tensor, square: Tensor) -> Tensor:
    """m/√v, and 0 where there has never been a gradient."""
    return mean / square.sqrt().clamp(min=1e-30)


def expected_positive(logits: Tensor, observed: Tensor, n_positives: float, weight: float) -> Tensor:
    """EPR(a) = −Σ_{s=1} log a / B + λ·(k̂ − k)²/c, with a = σ(logits) and k̂ the batch's mean of Σ_j a_j.

    This is the published loss times c. Entries known to be absent add −log(1 − a); the paper has none.
    """
    known = observed.to(logits.dtype)
    seen = binary_cross_entropy(logits, known.clamp(min=0), known.abs())
    excess = torch.sigmoid(logits).sum() / logits.shape[0] - n_positives
    return seen + weight * excess.square() / logits.shape[1]


def agreement(logits: Tensor, targets: Tensor, observed: Tensor, n_positives: float, weight: float) -> Tensor:
    """ℓ(a | b) = BCE(a, sg b) + EPR(a), with a = σ(logits) and b = ``targets``."""
    entropy = binary_cross_entropy(logits, targets.detach())
    return entropy + expected_positive(logits, observed, n_positives, weight)


def role(logits: Tensor, label_logits: Tensor, observed: Tensor, n_positives: float, weight: float) -> Tensor:
    """L = ½·[ ℓ(p | sg ŷ) + ℓ(ŷ | sg p) ], with p = σ(logits) and ŷ = σ(label_logits)."""
    by_network = agreement(logits, torch.sigmoid(label_logits), observed, n_positives, weight)
    by_labels = agreement(label_logits, torch.sigmoid(logits), observed, n_positives, weight)
    return 0.5 * (by_network + by_labels)


def label_gradient(
    label_logits: Tensor, probabilities: Tensor, observed: Tensor, n_positives: float, weight: float
) -> Tensor:
    """∂L/∂Θ on the batch's rows: ½/B · [ (ŷ − p) + |s|·(ŷ − 1[s=1]) + 2λ(k̂ − k)/c · ŷ(1 − ŷ) ] with ŷ = σ(Θ)."""
    estimate = torch.sigmoid(label_logits)
    excess = estimate.sum() / estimate.shape[0] - n_positives
    gradient = estimate - probabilities
    gradient += torch.where(observed == 0, 0.0, estimate - (observed > 0).to(estimate.dtype))
    gradient += (2.0 * weight / estimate.shape[1]) * excess * estimate * (1.0 - estimate)
    return gradient.mul_(0.5 / estimate.shape[0])


_KNOWN = math.log(0.995 / 0.005)  # Θ starts at ± this where the label is known …
_SPREAD = math.log(0.6 / 0.4)  # … and uniformly within ± this where it is not: σ(Θ) in (0.4, 0.6)


class ROLEObjective(Objective):
    """L = ½·[ ℓ(p | sg ŷ) + ℓ(ŷ | sg p) ]: the network learns from the labels, the labels from the network."""

    def __init__(self, network: nn.Module, labels: LabelMatrix, label_rate: float, **settings: float) -> None:
        super().__init__(network)
        self.labels, self.label_rate, self.settings = labels, label_rate, settings

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss; the loop steps the network on it, and Θ takes its own step here, both from the same values."""
        logits = self.network(batch.features)
        probabilities = logits.detach().sigmoid()
        label_logits = self.labels.step(
            batch.rows,
            lambda theta: label_gradient(theta, probabilities, batch.observed, **self.settings),
            self.label_rate,
            batch.number + 1,
        )
        yield "role", role(logits, label_logits, batch.observed, **self.settings)

    def row_state(self) -> list[Tensor]:
        """Θ with Adam's state, and the step up to which each row has been computed."""
        return [self.labels.state, self.labels.last]

    def running_state(self) -> dict[str, Tensor]:
        """The pull of every step of Θ so far, which rows catch up with when they are read."""
        return {"pull": self.labels.pull}

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Take it back."""
        self.labels.pull = state["pull"].to(self.labels.pull)

    @torch.no_grad()
    def soft_labels(self, rows: Rows) -> Tensor:
        """ŷ = σ(Θ) of all rows; rows that were not trained on get p at unknown entries."""
        logits = self.labels.settled()
        trained = torch.zeros(rows.n_samples, dtype=torch.bool, device=logits.device)
        trained[rows.trainable] = True
        others = (~trained).nonzero().squeeze(1)
        for part in torch.split(others, 4096) if len(others) else ():  # no items of a Dataset make no batch
            predicted = self.network(rows.gather(part)).to(logits)
            logits[part] = torch.where(rows.observed[part] == 0, predicted, logits[part])
        return torch.sigmoid(logits)


def initial_label_logits(observed: Tensor, generator: torch.Generator, scores: Tensor | None = None) -> Tensor:
    """Θ as published: ± logit .995 where known, else uniform within ± logit .6, or at the logit of a score."""
    logits = torch.empty(observed.shape, device=observed.device).uniform_(-_SPREAD, _SPREAD, generator=generator)
    if scores is not None:
        logits = torch.where(torch.isnan(scores), logits, torch.logit(scores).clamp(-_KNOWN, _KNOWN))
    return torch.where(observed == 0, logits, _KNOWN * observed.to(logits.dtype))


@dataclass(kw_only=True, eq=False, repr=False)
class ExpectedPositiveClassifier(GraphClassifier):
    """Expected positive regularisation: fit what was observed, keep k positives per row on average. Key: ``epr``.

    Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021.

    Parameters
    ----------
    n_positives : float, "estimate" or None
        k, the mean number of positive labels per row; see ``ROLEClassifier``.
    regularizer_weight : float
        λ of ((k̂ − k)/c)². Other parameters: ``NeuralClassifier``.

    Attributes
    ----------
    n_positives_ : float
        The k that was used; ``history_.facts`` says where it came from.

    Examples
    --------
    >>> from onepos.methods.role import ExpectedPositiveClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = ExpectedPositiveClassifier(n_positives=2.0, max_epochs=3, random_state=0).fit(data.X, data.observed)
    >>> model.n_positives_
    2.0
    """

    regularizer_weight: float = 1.0

    _parameter_constraints: ClassVar[Constraints] = {
        **GraphClassifier._parameter_constraints,
        "regularizer_weight": [POSITIVE_OR_ZERO],
    }

    def _make_objective(self, context: Context) -> Objective:
        number = self._set_n_positives(context)
        loss = partial(expected_positive, n_positives=number, weight=self.regularizer_weight)
        return LossObjective(context.network, "expected_positive", loss)


@dataclass(kw_only=True, eq=False, repr=False)
class ROLEClassifier(ExpectedPositiveClassifier):
    """ROLE: estimate every training label online, together with the network, under an expected number of positives.

    Key: ``role``. A matrix Θ holds one logit for each training entry. Network and Θ are each pulled towards the other's
    sigmoid, towards what was observed, and towards k positives per row on average. From the paper of
    ``ExpectedPositiveClassifier``.

    Parameters
    ----------
    n_positives : float, "estimate" or None
        k, the mean number of positive labels per example. None: taken from a fully labelled validation set if there is
        one, else 2 (fewer if there are only two labels); a 1-D y has one. "estimate": √(1/A), with A the rate at which
        nearest neighbours show the same label; assumes that the observed label is drawn uniformly from the row's
        positives and is a guess between two bounds, see ``docs/methods/role.md``.
    regularizer_weight : float
        λ of ((k̂ − k)/c)²; 0 leaves the number of positives free.
    label_rate_factor : float
        Learning rate of Θ over that of the network. Other parameters: ``NeuralClassifier``. Weight decay acts on the
        network only.

    Attributes
    ----------
    soft_labels_ : float32 array of shape (n_samples, n_labels)
        σ(Θ) at the restored epoch. Rows held out for validation or without an observed positive have no trained Θ. They
        get the network's probability, with 0.995 and 0.005 at known entries.
    n_positives_ : float
        See ``ExpectedPositiveClassifier``.

    Examples
    --------
    >>> from onepos.methods.role import ROLEClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = ROLEClassifier(n_positives=2.0, max_epochs=3, random_state=0).fit(data.X, data.observed)
    >>> model.soft_labels_.shape, bool((model.soft_labels_[data.observed == 1] > 0.9).all())
    ((200, 4), True)
    """

    label_rate_factor: float = 10.0

    _parameter_constraints: ClassVar[Constraints] = {
        **ExpectedPositiveClassifier._parameter_constraints,
        "label_rate_factor": [POSITIVE_OR_ZERO],
    }

    # Its estimated labels pull away from the observed ones, as those of SMILE do.
    _judged_by_likelihood: ClassVar[bool] = False

    def fit(
        self, X: Any, y: Any = None, *, label_scores: Any = None, graph_features: Any = None, **arguments: Any
    ) -> Self:
        """Train on observed labels; see ``GraphClassifier.fit`` for the other arguments.

        Parameters
        ----------
        label_scores : array or DataFrame of shape (n_samples, n_labels), optional
            What another source says about each label of each row, such as a zero-shot model: probabilities, NaN where
            it says nothing. Θ starts at their logits.
        """
        return self._fit(X, y, {"label_scores": label_scores, "graph_features": graph_features}, **arguments)

    def _make_objective(self, context: Context) -> Objective:
        labels = LabelMatrix(initial_label_logits(context.rows.observed, context.generator, context.label_scores))
        rate = context.schedule.learning_rate * self.label_rate_factor
        settings = {"n_positives": self._set_n_positives(context), "weight": self.regularizer_weight}
        return ROLEObjective(context.network, labels, rate, **settings)

    def _finish(self, objective: Objective, context: Context) -> None:
        assert isinstance(objective, ROLEObjective)
        # The network is on the CPU by now; Θ follows it.
        objective.cpu()
        rows = context.rows
        features = rows.features.cpu() if isinstance(rows.features, Tensor) else rows.features
        self.soft_labels_ = objective.soft_labels(Rows(features, rows.observed.cpu(), rows.trainable.cpu())).numpy()
