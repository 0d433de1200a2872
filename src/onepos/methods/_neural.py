"""The neural methods' common shell: scale, split, build, train, predict. A method adds its objective."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor, nn

from onepos import metrics
from onepos._random import spawn
from onepos._validation import Labels
from onepos.features import as_features, gather, take
from onepos.methods._base import OnePositiveClassifier
from onepos.methods._holdout import hold_out
from onepos.methods._label_scores import check_label_scores
from onepos.methods._network_state import restore_network, store_network
from onepos.networks import MLP
from onepos.scaling import SCALE_KINDS, FeatureScaler, fit_scaler
from onepos.training import Callback, History, Objective, ProgressBar, Rows, Schedule, train
from onepos.training.threads import limited_threads, useful_threads

PREDICTION_ROWS = 4096


@dataclass(frozen=True)
class Held:
    """Validation rows: scaled features, labels as given, and whether the labels are complete."""

    features: Any
    observed: NDArray[np.int8]
    full: bool


@dataclass(frozen=True)
class Context:
    """What a method may use to build its objective."""

    rows: Rows
    network: nn.Module
    held: Held | None
    generator: torch.Generator
    #: Probabilities from elsewhere, shape (n_samples, n_labels), NaN where there are none.
    label_scores: Tensor | None = None

    @property
    def n_labels(self) -> int:
        """Number of labels c."""
        return int(self.rows.observed.shape[1])

    @property
    def full_validation(self) -> NDArray[np.int8] | None:
        """Fully labelled validation labels, if there are any."""
        return self.held.observed if self.held is not None and self.held.full else None


class _FittedNetwork(OnePositiveClassifier):
    """Learnt attributes, declared apart from the parameters that the dataclass below turns into ``__init__``."""

    network_: nn.Module
    scaler_: FeatureScaler
    history_: History


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralClassifier(_FittedNetwork):
    """Shared parameters of the neural methods; subclasses implement ``_make_objective``.

    Being a dataclass, each parameter is written once, here, and every method inherits it in its signature.

    Parameters
    ----------
    network : "auto", sequence of int, or torch.nn.Module
        Hidden layer sizes of the predictive network f; "auto" is one hidden layer of max(128, n_labels) units (the
        paper's three-layer perceptron, wide enough). A module takes features and returns logits; it is copied.
    dropout : float
        Probability of dropping a hidden unit.
    learning_rate, weight_decay : float
        Adam's step size and decoupled weight decay (AdamW).
    learning_rate_decay : {"none", "cosine"}
        Keep the learning rate, or let it fall to zero along half a cosine.
    batch_size, max_epochs : int
        Size of the mini-batches; number of passes over the data.
    early_stopping : bool or "auto"
        Hold out ``validation_fraction`` of the rows, stop after ``patience`` epochs without a better
        ``selection_metric`` and restore the best epoch. "auto": with 1,000 labelled rows or more. A validation set
        given to ``fit`` is always used.
    selection_metric : str
        The metric of ``onepos.metrics`` that chooses the epoch.
    patience : int or None
        Epochs to wait for a better score; None trains to the end and restores the best epoch.
    validation_fraction : float
        Share of the rows held out.
    scale : {"auto", "standard", "minmax", "none"}
        Feature scaling, saved with the model; "auto" standardises dense features that are not 0/1.
    device : str
        Where to train: "cpu", "cuda", …
    random_state : int, RandomState, Generator or None
        Seeds everything that is random in training; equal seeds give identical bits on one machine.
    verbose : int
        1 shows a progress bar on standard error.
    """

    network: Any = "auto"
    dropout: float = 0.0
    learning_rate: float = 1e-3
    learning_rate_decay: str = "none"
    weight_decay: float = 0.0
    batch_size: int = 16
    max_epochs: int = 25
    early_stopping: bool | str = "auto"
    selection_metric: str = "average_precision"
    patience: int | None = 10
    validation_fraction: float = 0.1
    scale: str = "auto"
    device: str = "cpu"
    random_state: Any = None
    verbose: int = 0

    _reads_from_disk: ClassVar[bool] = True

    #: Whether ``fit`` takes ``label_scores``.
    _uses_label_scores: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "network": [StrOptions({"auto"}), "array-like", nn.Module],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "learning_rate_decay": [StrOptions({"none", "cosine"})],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "early_stopping": [StrOptions({"auto"}), "boolean"],
        "selection_metric": [StrOptions(set(metrics.METRICS))],
        "patience": [Interval(Integral, 1, None, closed="left"), None],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "scale": [StrOptions(set(SCALE_KINDS))],
        "device": [str],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
    }

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        validation: tuple[Any, Any] | None = None,
        validation_labels: str = "single",
        label_scores: Any = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Train on observed labels.

        Parameters
        ----------
        X : array, CSR matrix or DataFrame of shape (n_samples, n_features)
            A large memory-mapped array (``numpy.load(path, mmap_mode="r")``) is read batch by batch, never whole.
        y : indicator (n_samples, n_labels), or vector of classes (n_samples,)
            1 observed, 0 unknown, −1 known absent. DataFrame columns name the labels.
        validation : (X_val, Y_val), optional
            Rows to choose the epoch on. Without it, ``early_stopping`` may hold out ``validation_fraction`` of X.
        validation_labels : {"single", "full"}
            Whether ``Y_val`` shows one positive per row or all of them. Against single positives average precision
            is the mean reciprocal rank of the observed label.
        label_scores : array or DataFrame of shape (n_samples, n_labels), optional
            What another source says about each label of each row, such as a zero-shot model: probabilities, NaN where
            it says nothing. For ``role``, ``em`` and ``em-apl``, whose pages say what they do with it.
        callbacks : sequence of onepos.training.Callback
            Told after each batch and epoch.
        """
        X, labels = self._check_training(X, y)
        scores = check_label_scores(label_scores, labels, type(self).__name__, used=self._uses_label_scores)
        generator_numpy, generator = spawn(self.random_state, self.device)
        given = self._check_validation(validation, validation_labels, labels)
        trainable, held_out = self._split(labels, given is not None, generator_numpy)
        # The scaler sees training rows only: held-out rows must not leak into what is chosen on them.
        self.scaler_ = fit_scaler(take(X, trainable) if held_out.size else X, self.scale)
        scaled = self.scaler_.transform(X)
        held = None
        if given is not None:
            held = Held(as_features(self.scaler_.transform(given[0])), given[1], validation_labels == "full")
        elif held_out.size:
            held = Held(as_features(take(scaled, held_out)), labels.observed[held_out], self._y_is_full)
        rows = Rows.from_arrays(scaled, labels.observed, trainable, self.device)
        network = self._build_network(X.shape[1], len(labels.classes), generator)
        context = Context(rows, network, held, generator, None if scores is None else scores.to(self.device))
        objective = self._make_objective(context).to(self.device)
        schedule = Schedule(
            self.max_epochs,
            self.batch_size,
            self.learning_rate,
            self.weight_decay,
            self.patience,
            self.learning_rate_decay,
        )
        listeners = [*callbacks, *([ProgressBar(type(self).__name__)] if self.verbose else [])]
        n_parameters = sum(p.numel() for p in objective.parameters())
        with limited_threads(useful_threads(self.batch_size, n_parameters)):
            self.history_ = train(
                objective,
                rows,
                schedule,
                generator,
                scorer=None if held is None else self._scorer(held),
                selection=(self.selection_metric, metrics.higher_is_better(self.selection_metric)),
                callbacks=listeners,
            )
        self.history_.facts["scale"] = self.scaler_.kind
        self.network_ = objective.network.cpu().eval()
        self._finish(objective, context)
        return self

    def _make_objective(self, context: Context) -> Objective:
        """Build the method's objective around ``context.network``."""
        raise NotImplementedError(f"{type(self).__name__} must say what it minimises.")

    def _finish(self, objective: Objective, context: Context) -> None:
        """Keep what else the method learnt; the default keeps nothing."""

    def _split(
        self, labels: Labels, validation_given: bool, generator: np.random.Generator
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows to train on, rows held out (empty when a validation set was given or none is wanted)."""
        labelled = np.flatnonzero(labels.labelled)
        # "auto" holds rows out only where they can be spared: a tenth of a thousand still ranks epochs reliably.
        wanted = len(labelled) >= 1000 if self.early_stopping == "auto" else bool(self.early_stopping)
        if validation_given or not wanted:
            return labelled, np.empty(0, dtype=np.intp)
        return hold_out(labels.observed, labelled, self.validation_fraction, generator)

    def _build_network(self, n_features: int, n_labels: int, generator: torch.Generator) -> nn.Module:
        if isinstance(self.network, nn.Module):
            return copy.deepcopy(self.network)
        hidden = [max(128, n_labels)] if isinstance(self.network, str) else [int(size) for size in self.network]
        if any(size < 1 for size in hidden):
            raise ValueError(f"network must list hidden layer sizes of at least 1; got {self.network!r}.")
        return MLP([n_features, *hidden, n_labels], dropout=self.dropout, generator=generator)

    def _scorer(self, held: Held) -> Any:
        metric = getattr(metrics, self.selection_metric)

        def score(network: nn.Module) -> dict[str, float]:
            logits = _forward(network, held.features, self.device)
            scores = logits if self.selection_metric != "hamming_loss" else 1.0 / (1.0 + np.exp(-logits))
            return {self.selection_metric: metric(held.observed, scores)}

        return score

    def _network_logits(self, X: Any) -> NDArray[np.float64]:
        # float64 at prediction: the result must not depend on which other rows share the batch.
        network = copy.deepcopy(self.network_).double().to(self.device)
        return _forward(network, self.scaler_.transform(X), self.device).astype(np.float64, copy=False)

    def _logits(self, X: Any) -> NDArray[np.float64]:
        return self._network_logits(X)

    def _state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return store_network(self.network_, self.scaler_, self.history_)

    def _restore(self, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
        self.network_, self.scaler_, self.history_ = restore_network(arrays, facts)


def _forward(network: nn.Module, features: Any, device: str) -> NDArray[Any]:
    """Logits of all rows, in the network's own precision, PREDICTION_ROWS at a time."""
    dtype = next(network.parameters()).dtype
    features = as_features(features)
    pieces = []
    with torch.no_grad():
        for index in torch.split(torch.arange(features.shape[0]), PREDICTION_ROWS):
            pieces.append(network(gather(features, index).to(device=device, dtype=dtype)).cpu())
    return np.asarray(torch.cat(pieces).numpy())
