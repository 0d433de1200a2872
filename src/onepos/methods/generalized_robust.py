"""GR: the generalised robust loss (Chen et al., IJCAI 2024)."""

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from torch import Tensor, nn

from onepos._utils.private_names import Interval
from onepos.methods._neural import Context, NeuralClassifier
from onepos.methods.hill import RobustShape, generalized_robust
from onepos.training import Batch, Objective

Ends = tuple[float, float]


@dataclass(frozen=True)
class RobustSchedule:
    """First and last values of the four numbers of the loss, and the number of epochs between them."""

    slope: Ends
    offset: Ends
    center: Ends
    width: Ends
    max_epochs: int

    def at(self, epoch: int) -> RobustShape:
        """Linear in the 0-based epoch: w and b have gone epoch/T of their way, μ and σ (epoch + 1)/T."""
        begun, done = epoch / self.max_epochs, (epoch + 1) / self.max_epochs
        return RobustShape(
            _between(self.slope, begun),
            _between(self.offset, begun),
            _between(self.center, done),
            _between(self.width, done),
        )


def _between(ends: Ends, progress: float) -> float:
    return ends[0] + progress * (ends[1] - ends[0])


class GeneralizedRobustObjective(Objective):
    """The GR loss of the epoch."""

    def __init__(self, network: nn.Module, schedule: RobustSchedule, powers: tuple[float, float]) -> None:
        super().__init__(network)
        self.schedule = schedule
        self.powers = powers

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, one step."""
        yield (
            "robust",
            generalized_robust(
                self.network(batch.features),
                batch.observed,
                self.schedule.at(self.epoch),
                positive_power=self.powers[0],
                negative_power=self.powers[1],
            ),
        )


@dataclass(kw_only=True, eq=False, repr=False)
class GeneralizedRobustClassifier(NeuralClassifier):
    """Generalised robust loss: unknown labels get a soft label and a weight from the network's own p. Key: ``gr``.

    The soft label is K = σ(w p + b), the weight V = exp(−(p − μ)²/(2σ²)). Each of the four numbers goes from a first to
    a last value over the epochs.

    Parameters
    ----------
    slope, offset : (float, float)
        w and b at the beginning and the end.
    center, width : (float, float)
        μ and σ at the beginning and the end.
    positive_power, negative_power : float
        q2 and q3 of the generalised cross-entropies (1 − p^q)/q; 0 is the cross-entropy itself.
    network, learning_rate, … :
        See ``NeuralClassifier``.

    References
    ----------
    Chen et al., "Boosting Single Positive Multi-label Classification with Generalized Robust Loss", IJCAI 2024.

    Examples
    --------
    >>> from onepos.methods.generalized_robust import GeneralizedRobustClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = GeneralizedRobustClassifier(max_epochs=3, random_state=0).fit(data.X, data.observed)
    >>> model.predict_proba(data.X).shape
    (200, 4)
    """

    slope: Ends = (0.0, 2.0)
    offset: Ends = (-2.0, -2.0)
    center: Ends = (0.5, 0.8)
    width: Ends = (2.0, 0.5)
    positive_power: float = 0.01
    negative_power: float = 1.0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NeuralClassifier._parameter_constraints,
        "slope": ["array-like"],
        "offset": ["array-like"],
        "center": ["array-like"],
        "width": ["array-like"],
        "positive_power": [Interval(Real, 0, None, closed="left")],
        "negative_power": [Interval(Real, 0, None, closed="left")],
    }

    def _make_objective(self, context: Context) -> Objective:
        ends = {name: _ends(name, getattr(self, name)) for name in ("slope", "offset", "center", "width")}
        if min(ends["width"]) <= 0:
            raise ValueError(f"width must be above 0 at both ends; got {self.width!r}.")
        schedule = RobustSchedule(**ends, max_epochs=self.max_epochs)
        powers = (self.positive_power, self.negative_power)
        return GeneralizedRobustObjective(context.network, schedule, powers)


def _ends(name: str, value: Any) -> Ends:
    if len(value) != 2 or not all(isinstance(number, Real) for number in value):
        raise ValueError(f"{name} must be two numbers, its first and its last value; got {value!r}.")
    return float(value[0]), float(value[1])
