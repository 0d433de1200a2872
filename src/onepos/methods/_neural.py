"""The neural methods' common estimator: parameters, ``fit``, prediction. A method adds its objective."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, validate_data
from torch import nn

from onepos._utils import storage
from onepos._utils.context import fingerprint, stage, tell, time_left
from onepos._utils.parameters import (
    AT_LEAST_ONE,
    Constraints,
    one_of,
)
from onepos._utils.validation import Labels, check_label_scores, seed_from, spawn, unchanged_on_error
from onepos.exceptions import ModelFileError
from onepos.label_sets.thresholds import estimate_n_positives, resolve_n_positives
from onepos.methods._base import OnePositiveClassifier
from onepos.methods._fit_network import N_FOLDS, Context, Held, OutOfFold, Task, choose_epochs, fit_network
from onepos.methods._network_settings import NetworkSettings
from onepos.rows.scaling import FeatureScaler
from onepos.rows.splits import first_alike, hold_out
from onepos.rows.stored import DatasetRows, DiskRows, check_finite, is_dataset, on_disk, take
from onepos.training import Callback, Checkpoint, History, Objective
from onepos.training.machine import Processes, check_device, join, limited_threads
from onepos.training.networks import MLP, forward_all

__all__ = ["Context", "GraphClassifier", "NeuralClassifier"]

#: With at least so many labelled rows a tenth of them still ranks epochs reliably; with fewer, folds choose the epoch.
_ENOUGH_TO_HOLD_OUT = 2500
#: Training rows that label sets are cut by where none are held out.
_CUT_ROWS = 2000


class _FittedNetwork(OnePositiveClassifier):
    """Learnt attributes, apart from the parameters of the dataclass below."""

    network_: nn.Module
    _item_shape: tuple[int, ...]


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralClassifier(NetworkSettings, _FittedNetwork):
    """Shared parameters of the neural methods; subclasses implement ``_make_objective``.

    Parameters
    ----------
    network : "auto", sequence of int, torch.nn.Module, or callable
        Hidden layer sizes of the predictive network f; "auto" is one hidden layer of max(128, n_labels) units. A module
        takes features and returns logits; it is copied. A callable makes such a module from (n_features, n_labels); its
        start follows ``random_state``.
    start : {"frequencies", "random"}
        What the last layer of the library's own network begins with: the log-odds of how often each label was observed,
        so that the untrained network ranks labels as ``frequency`` does, or random weights.
    dropout, input_dropout : float
        Probability of dropping a hidden unit, and a feature, while training; the latter is for bags of rare features.
    pretraining_epochs : int or "auto"
        Epochs in which the hidden layers first learn to reconstruct a row's features from half of them. Only for the
        library's own networks. "auto": 30 for bags of rare features, fewer above 33,000 rows; 0 for other features.
    learning_rate : float or "auto"
        Adam's step size. "auto": 1e-3 · √(batch size / 16), half as much again for bags of rare features (none
        negative, fewer than a quarter not zero).
    weight_decay : float
        Decoupled weight decay (AdamW).
    learning_rate_factors : dict of str to float, or None
        Factors on the learning rate of those parameters of the network whose names begin with the key, such as
        ``{"backbone": 0.1}``; 0 freezes them. Of several keys that fit, the longest counts.
    batch_size : int or "auto"
        Size of the mini-batches, of all processes together. "auto": the power of 2 nearest to a fiftieth of the
        labelled rows, from 16 to 128; of many rows to a 250th, up to 4,096.
    max_epochs : int
        Number of passes over the data, at most.
    average_epochs : float
        The weights that are scored and kept are a moving average over the steps of about so many epochs; 0: they are
        those of the last step.
    gradient_accumulation : int
        Portions that a batch is computed in, one after the other, for one step: less memory, and the step that as many
        processes would take. Losses that look at a batch as a whole (those of ``epr``, ``role``, ``ll-…``, ``crisp``,
        the graph of ``smile`` and its shift) look at each portion.
    early_stopping : bool or "auto"
        Hold out ``validation_fraction`` of the rows, stop after ``patience`` epochs without a better
        ``selection_metric`` and restore the best epoch; the start, if none is better. "auto": with 2,500 labelled rows
        or more. With fewer, four networks first leave out a fourth of the rows each; the number of epochs that did best
        on the rows left out is the one that the network is then trained for on all rows (not for networks of your own).
        A validation set given to ``fit`` is always used.
    selection_metric : str
        What chooses the epoch: a metric of ``onepos.metrics``, or "observed_likelihood" (see ``onepos.training``), for
        validation rows that have one label each. "auto": average precision on complete labels, and the likelihood on
        others. Methods that do not learn that likelihood (``smile``, ``role``, ``em``, ``gr``, ``ll-…``, ``crisp``,
        ``an-ls``) have average precision, but in folds of fewer than ten rows per label.
    patience : int or None
        Epochs to wait for a better score, longer while it rises again. The start does not count. None trains to
        the end and restores the best epoch.
    validation_fraction : float
        Share of the rows held out.
    scale : {"auto", "standard", "minmax", "none"}
        Feature scaling, saved with the model; "auto" standardises dense features that are not 0/1.
    device : str
        Where to train: "cpu", "cuda", …
    precision : {"float32", "bfloat16"}
        Numbers that the network's forward passes are computed in while it is trained (mixed precision). Weights,
        losses and steps are float32, predictions float64.
    random_state : int, RandomState, Generator or None
        Seeds everything that is random in training; equal seeds give identical bits on one machine.
    verbose : int
        1 shows a progress bar on standard error.
    """

    _parameter_constraints: ClassVar[Constraints] = {
        **OnePositiveClassifier._parameter_constraints,
        **NetworkSettings._parameter_constraints,
    }

    _stored: ClassVar[storage.Rules] = {
        "scaler_": storage.Part(FeatureScaler),
        "network_": storage.Part(MLP),
        "history_": storage.Part(History),
    }

    #: Further arguments of ``fit``.
    _takes: ClassVar[tuple[str, ...]] = ()
    _reads_from_disk: ClassVar[bool] = True
    _trains_together: ClassVar[bool] = True

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        validation: Any = None,
        validation_labels: str = "single",
        callbacks: Sequence[Callback] = (),
        checkpoint: str | Path | None = None,
        graph_features: Any = None,
        label_scores: Any = None,
    ) -> Self:
        """Train on observed labels.

        In a program that torchrun started several times, all processes train one model; each is given the same
        arguments (docs/distributed.md).

        Parameters
        ----------
        X : array, CSR matrix or DataFrame of shape (n_samples, n_features), or Dataset
            A large memory-mapped array (``numpy.load(path, mmap_mode="r")``) is read batch by batch, never whole. So is
            a map-style torch Dataset, with items (x, y), or x or (x, …) if y is given here; x is an array or tensor, in
            the same shape in all items, which the network gets as it is; the library's own gets it flat.
        y : indicator (n_samples, n_labels), or vector of classes (n_samples,)
            1 observed, 0 unknown, −1 known absent. DataFrame columns name the labels. None: from the items of X.
        validation : (X_val, Y_val) or Dataset of (x, y), optional
            Rows to choose the epoch on. Without it, ``early_stopping`` may hold out ``validation_fraction`` of X.
        validation_labels : {"single", "full"}
            Whether ``Y_val`` shows one positive per row or all of them. Against single positives average precision
            is the mean reciprocal rank of the observed label.
        callbacks : sequence of onepos.training.Callback
            Told after each batch and epoch.
        checkpoint : path of a folder, optional
            Where to keep the run, after each epoch. If one with the same arguments and data is there, training goes on
            from it, to the same model as without a break.
        graph_features : array or CSR matrix of shape (n_samples, q), optional
            Only ``smile``, ``role``, ``epr`` and ``capped``: what to find similar rows by, instead of X. Needed if X is
            a Dataset.
        label_scores : array or DataFrame of shape (n_samples, n_labels), optional
            Only ``role``, ``em`` and ``em-apl``: what another source says about each label of each row, such as a
            zero-shot model: probabilities, NaN where it says nothing.
        """
        for name, value in (("graph_features", graph_features), ("label_scores", label_scores)):
            if value is not None and name not in self._takes:
                raise TypeError(f"{type(self).__name__}.fit() got an unexpected keyword argument {name!r}")
        with unchanged_on_error(self):
            processes = join(self.device)
            X, labels = self._check_training(X, y)
            check_device(self.device)
            if processes.size > 1:
                _check_same_data(X, labels, processes)
            seed = processes.agree(seed_from(self.random_state))
            if checkpoint is not None and self.random_state is None:
                seed = int((Checkpoint(checkpoint, {}).kept() or {}).get("seed", seed))
            given = self._check_validation(validation, validation_labels, labels)
            task = Task(
                self,
                self._make_objective,
                X,
                labels,
                seed,
                processes,
                trainable=np.flatnonzero(labels.labelled),
                held_out=np.empty(0, dtype=np.intp),
                label_scores=None if label_scores is None else check_label_scores(label_scores, labels),
                graph_features=None if graph_features is None else _check_graph_features(graph_features, X.shape[0]),
                given=None if given is None else Held(*given, full=validation_labels == "full"),
            )
            generator, chosen, auto = spawn(seed)[0], None, self.early_stopping == "auto"
            if given is None and (len(task.trainable) >= _ENOUGH_TO_HOLD_OUT if auto else self.early_stopping):
                fraction = self.validation_fraction
                alike = first_alike(X)
                _, held_out = hold_out(labels.observed, fraction, generator, rows=task.trainable, alike=alike)
                kept = np.setdiff1d(task.trainable, held_out, assume_unique=True)
                task = replace(task, trainable=kept, held_out=held_out)
            elif given is None and auto and not callable(self.network):
                chosen = choose_epochs(task, generator)
                task = replace(task, n_epochs=chosen.n_epochs)
            with stage(0.0 if chosen is None else N_FOLDS / (N_FOLDS + 1), 1.0):
                fitted = fit_network(replace(task, callbacks=callbacks, checkpoint=checkpoint))
            objective, context = fitted.objective, fitted.context
            self.scaler_, self.network_, self.history_ = fitted.scaler, objective.network, fitted.history
            if chosen is not None:
                self.history_.facts |= {"epochs_from": f"{N_FOLDS} folds"} | chosen.facts
            with limited_threads(fitted.n_threads):  # the result must not depend on the machine's number of threads
                self._finish(objective, context)
            objective.network.cpu()
            with limited_threads(1):
                self._cut(task, chosen)
            tell(1.0)
            return self

    def _cut(self, task: Task, chosen: OutOfFold | None) -> None:
        """Cut label sets on rows that the network was not trained on, if there are any."""
        given, complete = task.given, task.labels.observed if self._y_is_full else None
        if chosen is not None and chosen.n_epochs:
            logits, where = self._from_network(chosen.logits.astype(np.float64)), "rows left out of folds"
        elif given is not None:
            logits, where = self._logits(given.features), "validation rows"
            complete = complete if complete is not None or not given.full else given.observed
        elif task.held_out.size:
            logits, where = self._logits(take(task.X, task.held_out)), "held-out rows"
        else:
            logits, where = self._logits(take(task.X, task.trainable[:_CUT_ROWS])), "training rows"
        self._cut_at(logits, complete=complete, rows=where)

    def _make_objective(self, context: Context) -> Objective:
        """Build the method's objective around ``context.network``."""
        raise NotImplementedError(f"{type(self).__name__} must say what it minimises.")

    def _set_n_positives(self, context: Context) -> float:
        """Set and return the number of positives; without time left "estimate" means the same as None."""
        rows, number = context.rows, self.n_positives
        if number == "estimate" and not self.single_label_ and not rows.processes.agree(time_left() <= 0):
            index = rows.trainable.cpu().numpy()
            found = estimate_n_positives(context.graph.matrix[index], rows.observed.cpu().numpy()[index])
            self.n_positives_, self.n_positives_from_ = rows.processes.agree(found), "estimated"
        else:
            complete = context.held.observed if context.held is not None and context.held.full else None
            self.n_positives_, self.n_positives_from_ = resolve_n_positives(
                None if isinstance(number, str) else number, context.n_labels, complete, one_class=self.single_label_
            )
        return self.n_positives_

    def _finish(self, objective: Objective, context: Context) -> None:
        """Keep what else the method learnt; the default keeps nothing."""

    def _validate_features(self, X: Any, *, reset: bool) -> Any:
        if is_dataset(X):
            # The library's own networks want vectors.
            found: Any = DatasetRows.of(X, flat=not callable(self.network))
            if reset and len(found) < 2:
                raise ValueError(f"expected a Dataset of 2 items or more to fit; got {len(found)} sample.")
            validate_data(self, found, reset=reset, skip_check_array=True)
            shape = found.item_shape
        else:
            found = super()._validate_features(X, reset=reset)
            shape = (found.shape[1],)
        if reset:
            self._item_shape = shape
        elif shape != getattr(self, "_item_shape", shape):
            raise ValueError(
                f"expected rows of shape {self._item_shape}, which the network was trained on; got {shape}. A Dataset "
                "gives its items in their own shape, an array gives vectors."
            )
        return found

    def _network_logits(self, X: Any) -> NDArray[np.float64]:
        check_device(self.device)
        # float64 at prediction: the result must not depend on which other rows share the batch.
        network = copy.deepcopy(self.network_).double().to(self.device)
        return forward_all(network, self.scaler_.transform(X), self.device).astype(np.float64, copy=False)

    def _logits(self, X: Any) -> NDArray[np.float64]:
        return self._from_network(self._network_logits(X))

    def _from_network(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logits of the method from those of its network."""
        return logits

    def _graph_logits(self, graph: Any) -> str:
        return str(graph.network(self.scaler_, self.network_))

    @property
    def _params(self) -> dict[str, Any]:
        if callable(self.network):
            raise ModelFileError(
                f"a model with a network of your own ({type(self.network_).__name__}) cannot be saved to a file that "
                "is safe to open: rebuilding it would have to run code. Keep its weights with "
                "torch.save(model.network_.state_dict(), path), to be loaded into a network made by the same code, or "
                "the whole model with joblib.dump(model, path), which only you should open."
            )
        return super()._params

    @classmethod
    def _from_stored(cls, fields: dict[str, Any]) -> Self:
        ends = fields["network_"].sizes[0], fields["network_"].sizes[-1]
        if ends != (fields["n_features_in_"], len(fields["classes_"])):
            raise ValueError(f"network_ must have features as inputs and labels as outputs, not sizes {ends}")
        return super()._from_stored(fields)


@dataclass(kw_only=True, eq=False, repr=False)
class GraphClassifier(NeuralClassifier):
    """Base of neural methods that look for similar rows."""

    #: May be estimated from similar rows.
    n_positives: Any = None

    _parameter_constraints: ClassVar[Constraints] = {
        **NeuralClassifier._parameter_constraints,
        "n_positives": [AT_LEAST_ONE, one_of("estimate"), None],
    }

    _takes: ClassVar[tuple[str, ...]] = ("graph_features",)


def _check_same_data(X: Any, labels: Labels, processes: Processes) -> None:
    """Raise unless all processes were given the same number of rows and features, and the same labels."""
    everyones = processes.gather_values((*X.shape, fingerprint(labels.observed)))
    if len(set(everyones)) > 1:
        rows = ", ".join(f"{found[0]} rows of {found[1]} features" for found in everyones)
        raise ValueError(
            f"every process must be given the same X and y, all rows of them, and reads what it needs; they got "
            f"{rows}, or labels that differ. Pass the whole memory-mapped array in each process."
        )


def _check_graph_features(given: Any, n_samples: int) -> Any:
    if on_disk(given):
        matrix: Any = DiskRows(given)
        check_finite(matrix)
    else:
        matrix = check_array(given, accept_sparse="csr", dtype=(np.float64, np.float32), input_name="graph_features")
    if matrix.shape[0] != n_samples:
        raise ValueError(f"graph_features must have a row for each of the {n_samples} rows; got {matrix.shape[0]}.")
    return matrix
