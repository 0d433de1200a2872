"""Train candidates fold by fold within a time limit, judge them, give the rest of the time to the promising ones."""

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from onepos._utils.context import current_listener, deadline, progress_to, tell
from onepos.exceptions import LabelWarning, TrainingWarning
from onepos.methods._neural import NeuralClassifier
from onepos.methods.auto.candidates import Candidate, Shape, affordable, products_per_second
from onepos.methods.auto.judging import Contender, Folds, Judged, Labelled, raw_scores, weigh
from onepos.training import Callback, Objective

#: So many rows weigh candidates well enough; further folds only serve kinds that keep the models of their folds.
ENOUGH_ROWS = 4000
#: With fewer rows no candidate is dropped: its weight is mostly luck.
_ROWS_TO_DROP = 500
#: Share of the time for round one, and share up to which candidates of the second choice are tried in it.
_FIRST_ROUND, _AMPLE = 0.75, 0.25
#: What every pool is compared with: tried whatever the budget is, for so many seconds if it is used up.
BASELINES, _LEAST_SECONDS = ("frequency", "logistic"), 2.0
#: Share of the time that a candidate may take in round one, where that is less than half of what is left of the round.
_MOST_ALLOWED = {"logistic": 0.15}
#: Share of the time up to which a fold of a candidate without weight is worth a comparison.
_CHEAP = 0.03
#: Variants of networks in a row that bring nothing; then no more are tried.
_MOST_USELESS = 3
#: Most weights that the networks of the pool have together, with two bytes each in a model file. Of 10,000 words, four
#: networks have 10 million. Average precision on 800 validation rows was .579 with three networks, .580 with four, .579
#: with five.
_MOST_WEIGHTS = 12_000_000
#: A network is left alone if the time allows fewer epochs than this.
_FEWEST_EPOCHS = 3


class _TooSlow(Exception):
    """The time allows too few epochs."""


class _Pace(Callback):
    """Gives a network up if a taste of its first epoch says that the time is too short for it."""

    def __init__(self, end: float) -> None:
        self.started, self.end, self.known = time.monotonic(), end, False

    def on_train_begin(self, objective: Objective, max_epochs: int) -> None:
        self.started = time.monotonic()

    def on_batch_end(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self.known or now - self.started < 0.5 or done < 4:
            return
        self.known = True
        if (now - self.started) / done * total * _FEWEST_EPOCHS > self.end - self.started:
            raise _TooSlow

    def on_epoch_end(self, objective: Objective, record: Mapping[str, float]) -> None:
        self.known = True


def evaluate(
    candidate: Candidate,
    train: Labelled,
    held: Labelled | None,
    *,
    seed: int,
    complete: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Judged:
    """Train a candidate on some rows, and score those that are held out; their labels may be ``complete``."""
    started = time.monotonic()
    model = candidate.build(seed)
    arguments: dict[str, Any] = {}
    if held is not None:
        arguments = {"validation": held, "validation_labels": "full" if complete else "single"}
    if isinstance(model, NeuralClassifier):
        model.set_params(early_stopping=False)
        arguments["callbacks"] = callbacks
    model.fit(*train, **arguments)
    scores = [] if held is None else [raw_scores(model, held[0]).astype(np.float32)]
    return Judged(model, scores, time.monotonic() - started)


def evaluate_kernel(candidate: Candidate, folds: Folds, *, seed: int) -> Judged:
    """Train a kernel on all rows: its leave-one-out predictions are those of all folds."""
    started = time.monotonic()
    model: Any = candidate.build(seed).fit(folds.features, folds.observed)
    return Judged(model, [model.left_out_[rows] for _, rows in folds.parts], time.monotonic() - started)


class TimedSearch:
    """What was tried, and what time allows until ``end`` (``time.monotonic()``)."""

    def __init__(self, folds: Folds, shape: Shape, end: float, seed: int) -> None:
        self.folds, self.shape, self.end, self.seed = folds, shape, end, seed
        self.listener = current_listener()
        self.started = time.monotonic()
        self.speed = 1.0 if np.isinf(end) else products_per_second()
        self.contenders: list[Contender] = []
        self.given_up: list[Contender] = []  # networks for which the time of round one was too short
        self.n_judged = 0  # folds that all promising candidates have
        self.stopped = "methods"
        self.work = 1  # fits expected in all, to tell how far the search is without a time limit
        self.done = 0

    def run(self, first: list[Candidate], later: list[Candidate], more: Iterator[Candidate], n_members: int) -> None:
        """Run the rounds: ``first``, ``later`` if time is ample, ``more`` when all folds are done. Ctrl-C ends them."""
        first, later = first[:n_members], later[: max(0, n_members - len(first))]
        self.work = (len(first) + len(later)) * max(1, len(self.folds)) + 2
        try:
            self._first_round(first, later)
            self._slow_network()
            if len(self.folds):
                self._weigh(1)
                self._further_folds()
                # One fold is done as soon as round one is, even if candidates were left out.
                folds_done = len(self.folds) == 1 or self.stopped == "methods"
                if folds_done and not np.isinf(self.end):
                    self._variants(more, len(first) + len(later), n_members)
        except KeyboardInterrupt:
            self.stopped = "interrupted"
            self.contenders = [one for one in self.contenders if one.judged]
            if not self.contenders:
                raise
            if len(self.folds):
                self._weigh(max(1, self.n_judged))

    def _first_round(self, first: list[Candidate], later: list[Candidate]) -> None:
        length = self.end - self.started
        for place, candidate in enumerate([*first, *later]):
            now = time.monotonic()
            is_first = place < len(first)
            finish = min(self.started + (_FIRST_ROUND if is_first else 2 * _AMPLE) * length, self._until())
            least = _LEAST_SECONDS if candidate.key in BASELINES else 0.0
            if place and least == 0.0 and now >= finish - (0.0 if is_first else _AMPLE * length):
                self.stopped = "time_budget" if is_first else self.stopped
                return
            allowed = now + max(least, min(0.5 * (finish - now), _MOST_ALLOWED.get(candidate.key, 1.0) * length))
            chosen = affordable(candidate, self.shape, allowed - now, self.speed)
            if chosen is not None:
                contender = Contender(chosen, place)
                self.contenders.append(contender)
                if not self._train(contender, allowed):
                    self.contenders.remove(contender)
                    self.given_up.append(contender)

    def _slow_network(self) -> None:
        """Give the time that is left to one network if all were given up: a few epochs are better than none."""
        ample = self._until() - time.monotonic() > 0.1 * (self.end - self.started)
        if ample and self.given_up and not any(one.candidate.is_network for one in self.contenders):
            slow = self.given_up[0]
            self._train(slow, self._until(), patient=True)
            self.contenders.append(slow)

    def _further_folds(self) -> None:
        """Train the promising candidates on one fold after the other."""
        for fold in range(1, len(self.folds)):
            n_rows = len(self.folds.labels(fold))
            going = [one for one in self.contenders if n_rows < _ROWS_TO_DROP or self._counts(one)]
            for one in sorted(going, key=lambda one: -one.weight):
                if one.n_folds > fold or (n_rows >= ENOUGH_ROWS and not one.candidate.is_network):
                    continue
                if self._is_large(one):
                    self.stopped = "model_size"
                elif time.monotonic() + 1.1 * max(one.seconds) <= self._until():
                    self._train(one, self._until())
                else:
                    self.stopped = "time_budget"
            self._weigh(min(one.n_folds for one in going))
            if self.stopped != "methods":
                return

    def _variants(self, more: Iterator[Candidate], n_tried: int, n_members: int) -> None:
        """Train variants of networks on all judged folds, until the time is up or several in a row bring nothing."""
        useless = 0
        for number, candidate in enumerate(more, start=n_tried):
            if len(self.contenders) >= n_members:
                self.stopped = "n_members"
                return
            variant = Contender(candidate, number)
            while variant.n_folds < self.n_judged:
                if self._is_large(variant):
                    self.stopped = "model_size"
                    return
                typical = [float(np.mean(other.seconds)) for other in self.contenders if other.candidate.is_network]
                left = self.n_judged - variant.n_folds
                if time.monotonic() + left * float(np.mean(variant.seconds or typical or [0.0])) > self._until():
                    self.stopped = "time_budget"
                    return
                if not self._train(variant, self._until()):
                    return
            self.contenders.append(variant)
            self._weigh(self.n_judged)
            useless = 0 if variant.weight > 0 else useless + 1
            if useless == _MOST_USELESS:
                return

    def _counts(self, one: Contender) -> bool:
        """Whether a candidate is worth more folds: it has a weight, or costs little and is compared with."""
        cheap = max(one.seconds) <= _CHEAP * (self.end - self.started)
        return one.weight > 0 or (cheap and one.candidate.key in BASELINES)

    def _is_large(self, one: Contender) -> bool:
        """Whether one more network of a candidate would make the model file too large."""
        kept = sum(len(other.judged) * n_weights(other) for other in self.contenders if other.weight > 0)
        return one.candidate.is_network and kept + n_weights(one) > _MOST_WEIGHTS

    def _until(self) -> float:
        """When training of folds must have ended, so that the final models can still be trained."""
        return self.end - sum(refit_seconds(one) for one in self.contenders if one.weight > 0)

    def _weigh(self, n_folds: int) -> None:
        self.n_judged = n_folds
        complete = [one for one in self.contenders if one.n_folds >= n_folds]
        for one in self.contenders:
            one.weight = 0.0
        for one, verdict in zip(complete, weigh(complete, self.folds.labels(n_folds), n_folds), strict=True):
            one.verdict = verdict

    def _train(self, one: Contender, end: float, *, patient: bool = False) -> bool:
        """Train a candidate without its next fold; False if time is too short for a network that is not ``patient``."""
        fold, n_folds, key = one.n_folds, len(self.folds), one.candidate.key
        step = f"{key}, fold {fold + 1} of {n_folds}" if n_folds > 1 else key
        seed = self._seed(one, fold)
        try:
            with self._under_limit(end, step):
                warnings.simplefilter("ignore", TrainingWarning)
                tell(0.0)
                if key == "kernel" and self.folds.parts:
                    judged = evaluate_kernel(one.candidate, self.folds, seed=seed)
                else:
                    pace = [] if one.judged or patient else [_Pace(end)]
                    complete = self.folds.judges is not None
                    rows = self.folds.train(fold), self.folds.held(fold)
                    judged = evaluate(one.candidate, *rows, seed=seed, complete=complete, callbacks=pace)
        except _TooSlow:
            return False
        history = getattr(judged.model, "history_", None)
        interrupted = history is not None and history.facts.get("stopped") == "interrupted"
        if not (fold and interrupted):  # it would count as much as the complete models of other folds
            one.judged.append(judged)
            self.done += 1
        if interrupted:
            raise KeyboardInterrupt
        return True

    @contextmanager
    def _under_limit(self, end: float, step: str) -> Iterator[None]:
        """Limit the time of the work inside and tell its progress; the labels were warned about once."""
        with deadline(end), progress_to(partial(self._tell, step)), warnings.catch_warnings():
            warnings.simplefilter("ignore", LabelWarning)
            yield

    def finish(self) -> None:
        """Train the final models: of kinds other than networks one of all rows replaces those of the folds."""
        if self.stopped == "interrupted" or not len(self.folds):
            return
        for one in self.contenders:
            key = one.candidate.key
            if one.weight == 0:
                continue
            if one.candidate.is_network:
                for model in one.members:
                    round_weights(model.network_)
            elif key == "kernel" or self.folds.judges is not None:
                one.final = one.members[0]
            elif key == "frequency" or time.monotonic() + 0.8 * refit_seconds(one) <= self.end:
                learnt = {}
                if key == "logistic":
                    learnt["l2"] = float(np.exp(np.mean([np.log(model.l2_) for model in one.members])))
                with self._under_limit(self.end, f"{key}, all rows"):
                    model = one.candidate.build(self._seed(one, len(self.folds)), **learnt)
                    one.final = model.fit(self.folds.features, self.folds.observed)
                self.done += 1

    def _seed(self, one: Contender, fold: int) -> int:
        """A seed for each pair, whatever was trained before."""
        return int(np.random.SeedSequence([self.seed, one.number, fold]).generate_state(1)[0])

    def _tell(self, step: str, _: str, share: float) -> None:
        """Pass on which candidate is trained, and how far the whole search is."""
        if self.listener is None:
            return
        if np.isinf(self.end):
            over = (self.done + share) / max(self.work, self.done + 1)
        else:
            over = (time.monotonic() - self.started) / max(self.end - self.started, 1e-9)
        self.listener(step, min(1.0, over))


def n_weights(one: Contender) -> int:
    """Weights of one network of a candidate; 0 for other kinds."""
    model = one.judged[0].model if one.judged else None
    return sum(p.numel() for p in model.network_.parameters()) if isinstance(model, NeuralClassifier) else 0


def refit_seconds(one: Contender) -> float:
    """Seconds that the final model will take at most."""
    if one.candidate.is_network or one.candidate.key in ("frequency", "kernel") or not one.judged:
        return 0.0
    return 1.3 * max(one.seconds)


@torch.no_grad()
def round_weights(network: nn.Module) -> None:
    """Round weights to 16 bits, so that a model file needs half the room; larger numbers than fit there stay."""
    for weights in network.parameters():
        half = weights.half()
        weights.copy_(torch.where(half.isfinite(), half.float(), weights))
