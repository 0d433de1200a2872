"""Train candidates fold by fold within a time limit, judge them, give the rest of the time to the promising ones."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from onepos._utils.context import Listener, current_listener, deadline, progress_to, quiet, tell, time_left
from onepos.exceptions import LabelWarning, TrainingWarning
from onepos.methods._base import OnePositiveClassifier
from onepos.methods._neural import NeuralClassifier
from onepos.methods.auto.budget import Budget, Pace, TooSlow, affordable
from onepos.methods.auto.candidates import Candidate, Shape, columns_of
from onepos.methods.auto.judging import Contender, Folds, raw_scores, weigh
from onepos.methods.forest import ForestClassifier
from onepos.methods.frequency import FrequencyClassifier
from onepos.methods.logistic import LogisticClassifier

#: So many rows weigh candidates well enough; further folds only serve kinds that keep the models of their folds.
ENOUGH_ROWS = 4000
#: With fewer rows no candidate is dropped: its weight is mostly luck.
_ROWS_TO_DROP = 500
#: Variants of networks in a row that bring nothing; then no more are tried.
_MOST_USELESS = 3
#: Rows of the sample that all candidates begin with; with many labels fewer, so that rows × labels stay below a number.
SAMPLE, _SAMPLE_ENTRIES = 24_000, 6_000_000
#: Share of the time in which logistic regression must learn from the sample, products that it needs per row, feature
#: and label, and rows that the sample has at least.
_OF_LOGISTIC, _PRODUCTS, _LEAST_SAMPLE = 0.06, 600, 4000
#: Most rows of the kinds that take much more time with more rows, and most rows × labels of logistic regression.
MOST_ROWS, _MOST_ENTRIES = {"forest": 100_000, "kernel": 50_000, "smile": 50_000}, 10_000_000
#: Epochs that a grown network needs, and share of the time for what follows the growth.
_GROWN_EPOCHS, _FOR_THE_REST = 4, 0.05
#: Most weights that the networks of the pool have together, with two bytes each in a model file. Of 10,000 words, four
#: networks have 10 million. Average precision on 800 validation rows was .579 with three networks, .580 with four, .579
#: with five.
_MOST_WEIGHTS = 12_000_000


@dataclass
class Search:
    """What was tried within a budget; ``stopped`` says what ended the search."""

    folds: Folds
    shape: Shape
    budget: Budget
    seed: int
    #: The candidates of round one for a shape: those to try first, and those to try if time is ample.
    candidates_of: Callable[[Shape], tuple[list[Candidate], list[Candidate]]]
    listener: Listener | None = field(default_factory=current_listener)
    contenders: list[Contender] = field(default_factory=list)
    #: Candidates that others replaced, or that had not enough time.
    dropped: list[Contender] = field(default_factory=list)
    n_judged: int = 0  # folds that all promising candidates have
    stopped: str = "methods"
    n_scores: int = 0  # last columns that are scores of the labels
    work: int = 1  # fits expected in all, to tell how far the search is without a time limit
    done: int = 0

    def seen(self, one: Contender, rows: Any) -> Any:
        """Return rows, features and labels, with the columns that are for a candidate; None if there are none."""
        if rows is None:
            return None
        return columns_of(rows[0], self.n_scores, one.candidate.key), rows[1]

    @property
    def grows(self) -> bool:
        """Whether candidates begin with a sample of many rows."""
        return self.folds.order is not None

    def begin_with_sample(self) -> None:
        """Take a sample of the rows, with a limit of time so few that logistic regression has time enough for them."""
        assert self.folds.order is not None
        n_labels, n_numbers = self.shape.n_labels, self.shape.n_features
        if self.shape.is_sparse:
            n_numbers = self.folds.features.nnz // self.shape.n_rows
        n_rows = min(SAMPLE, _SAMPLE_ENTRIES // n_labels)
        products = _PRODUCTS * (n_numbers + 10) * n_labels  # per row; exponentials take the time of some products
        if not np.isinf(self.budget.end):
            n_rows = min(n_rows, int(_OF_LOGISTIC * self.budget.length * self.budget.speed / products))
        n_rows = min(len(self.folds.order), max(_LEAST_SAMPLE, 2 * n_labels, n_rows))
        self.shape, self.folds = self.shape._replace(n_rows=n_rows), self.folds.first(n_rows)

    def candidates(self) -> tuple[list[Candidate], list[Candidate]]:
        """Candidates of round one; with many rows those that gain most from them come first."""
        if not self.grows:
            return self.candidates_of(self.shape)
        # A network that meets a small sample has large batches, too: it must be quick.
        first, later = self.candidates_of(self.shape._replace(n_rows=max(SAMPLE, self.shape.n_rows)))
        first.sort(key=lambda one: one.key in MOST_ROWS)
        return first, later

    @property
    def latest(self) -> float:
        """When training of folds must have ended, so that the final models can still be trained."""
        if self.grows:  # no final models follow
            return self.budget.started + (1.0 - _FOR_THE_REST) * self.budget.length
        return self.budget.end - sum(refit_seconds(one) for one in self.contenders if one.weight > 0)


def run(
    search: Search, first: list[Candidate], later: list[Candidate], more: Iterator[Candidate], n_members: int
) -> None:
    """Run the rounds: ``first``, ``later`` if time is ample, ``more`` when all folds are done. Ctrl-C ends them."""
    folds = search.folds
    first, later = first[:n_members], later[: max(0, n_members - len(first))]
    search.work = (len(first) + len(later)) * max(1, len(folds)) + 2
    try:
        first_round(search, first, later)
        if len(folds):
            judge(search, 1)
            if search.grows:
                grow(search)
            else:
                _further_folds(search)
            # One fold is done as soon as round one is, even if candidates were left out.
            folds_done = len(folds) == 1 or search.stopped == "methods"
            if folds_done and not np.isinf(search.budget.end):
                _variants(search, more, len(first) + len(later), n_members)
    except KeyboardInterrupt:
        search.stopped = "interrupted"
        search.contenders = [one for one in search.contenders if one.models]
        if not search.contenders:
            raise
        if len(folds):
            judge(search, max(1, search.n_judged))


def first_round(search: Search, first: list[Candidate], later: list[Candidate]) -> None:
    """Train every kind once; if all networks were given up, one has the time left: few epochs are better than none."""
    given_up = []  # networks for which the time was too short
    for place, candidate in enumerate([*first, *later]):
        ample = place >= len(first)
        end = search.budget.allowance(candidate.key, search.latest, place=place, ample=ample)
        if end is None:
            search.stopped = search.stopped if ample else "time_budget"
            break
        chosen = affordable(candidate, search.shape, end - time.monotonic(), search.budget.speed)
        if chosen is None:
            continue
        contender = Contender(chosen, place, n_rows=search.shape.n_rows)
        search.contenders.append(contender)
        if not train(search, contender, end):
            search.contenders.remove(contender)
            given_up.append(contender)
    much_left = search.latest - time.monotonic() > 0.1 * search.budget.length
    if much_left and given_up and not any(one.candidate.is_network for one in search.contenders):
        end = (time.monotonic() + search.latest) / 2 if search.grows else search.latest
        train(search, given_up[0], end, patient=True)
        search.contenders.append(given_up.pop(0))
    search.dropped += given_up


def grow(search: Search) -> None:
    """Train the promising candidates again on more rows; each replaces its smaller self if it is judged better.

    Those that gain most from rows come first: networks and logistic regression. One that gains nothing, or has not
    enough time, does not grow further. A candidate has half of the time that is left.
    """
    assert search.folds.order is not None
    settled: set[int] = set()
    all_rows, shape = len(search.folds.order), search.shape
    while True:
        networks = [one for one in search.contenders if one.candidate.is_network]
        wanted = [*sorted(networks, key=lambda one: -one.likelihood)[:1]]
        wanted += [one for one in search.contenders if one.weight > 0 or one.candidate.key == "logistic"]
        going = [one for one in search.contenders if one in wanted and one.number not in settled]
        if not going:
            break
        one = min(going, key=lambda one: (one.candidate.key in MOST_ROWS, -one.weight, one.number))
        end = (time.monotonic() + search.latest) / 2 if len(going) > 1 else search.latest
        n_rows = _more_rows(one, all_rows, shape, end - time.monotonic())
        settled.add(one.number)
        if not n_rows:
            continue
        search.shape, search.folds = shape._replace(n_rows=n_rows), search.folds.first(n_rows)
        of_kind = [*itertools.chain(*search.candidates())][one.number]
        candidate = affordable(of_kind, search.shape, end - time.monotonic(), search.budget.speed)
        if candidate is None:
            continue
        if isinstance(one.models[0], LogisticClassifier):  # the strength is a prior: it does not depend on the rows
            candidate = candidate._replace(settings={**candidate.settings, "l2": one.models[0].l2_})
        larger = Contender(candidate, one.number, n_rows=n_rows)
        if not train(search, larger, end) or not larger.finished:
            larger.finished = False
            search.dropped.append(larger)
            continue
        weigh([larger], search.folds.labels(1), 1)
        loser = larger
        if larger.likelihood > one.likelihood:
            search.contenders[search.contenders.index(one)], loser = larger, one
            settled.discard(one.number)
        loser.weight = 0.0
        search.dropped.append(loser)
        judge(search, 1)
    search.shape, search.folds = shape._replace(n_rows=all_rows), search.folds.first(all_rows)


def _more_rows(one: Contender, all_rows: int, shape: Shape, seconds: float) -> int:
    """Most rows, all or a part of them, that a candidate can be trained on in time; 0 if hardly more than now."""
    n_rows = all_rows
    if one.candidate.key in MOST_ROWS:
        n_rows = min(all_rows, MOST_ROWS[one.candidate.key])
    if one.candidate.key == "logistic":
        n_rows = min(all_rows, _MOST_ENTRIES // shape.n_labels)
    taken = one.seconds[0]
    if isinstance(one.models[0], NeuralClassifier):  # a few epochs are enough, and large batches are quicker
        taken *= 0.5 * _GROWN_EPOCHS / max(_GROWN_EPOCHS, len(one.models[0].history_))
    while n_rows > 1.5 * one.n_rows:
        if one.candidate.key == "kernel" or taken * n_rows / one.n_rows <= seconds:
            return n_rows
        n_rows //= 2
    return 0


def _further_folds(search: Search) -> None:
    """Train the promising candidates on one fold after the other."""
    for fold in range(1, len(search.folds)):
        n_rows = search.folds.labels(fold).shape[0]
        going = [
            one
            for one in search.contenders
            if n_rows < _ROWS_TO_DROP or one.weight > 0 or search.budget.is_cheap(one.candidate.key, max(one.seconds))
        ]
        for one in sorted(going, key=lambda one: -one.weight):
            if len(one.scores) > fold or (n_rows >= ENOUGH_ROWS and not one.candidate.is_network):
                continue
            if _is_large(search, one):
                search.stopped = "model_size"
            elif time.monotonic() + 1.1 * max(one.seconds) <= search.latest:
                train(search, one, search.latest)
            else:
                search.stopped = "time_budget"
        judge(search, min(len(one.scores) for one in going))
        if search.stopped != "methods":
            return


def _variants(search: Search, more: Iterator[Candidate], n_tried: int, n_members: int) -> None:
    """Train variants of networks on all judged folds, until the time is up or several in a row bring nothing."""
    useless = 0
    for number, candidate in enumerate(more, start=n_tried):
        if len(search.contenders) >= n_members:
            search.stopped = "n_members"
            return
        variant = Contender(candidate, number, n_rows=search.shape.n_rows)
        while len(variant.scores) < search.n_judged:
            if _is_large(search, variant):
                search.stopped = "model_size"
                return
            typical = [float(np.mean(other.seconds)) for other in search.contenders if other.candidate.is_network]
            left = search.n_judged - len(variant.scores)
            if time.monotonic() + left * float(np.mean(variant.seconds or typical or [0.0])) > search.latest:
                search.stopped = "time_budget"
                return
            if not train(search, variant, search.latest):
                return
        search.contenders.append(variant)
        judge(search, search.n_judged)
        useless = 0 if variant.weight > 0 else useless + 1
        if useless == _MOST_USELESS:
            return


def judge(search: Search, n_folds: int) -> None:
    """Weigh the candidates that have so many folds; the others have no weight."""
    search.n_judged = n_folds
    finished = [one for one in search.contenders if one.finished]
    if search.grows and finished:
        search.dropped += [one for one in search.contenders if not one.finished]
        search.contenders = finished
    for one in search.contenders:
        one.weight = 0.0
    complete = [one for one in search.contenders if len(one.scores) >= n_folds]
    weigh(complete, search.folds.labels(n_folds), n_folds)


def train(search: Search, one: Contender, end: float, *, patient: bool = False) -> bool:
    """Train a candidate without its next fold; False if time is too short for a network that is not ``patient``."""
    folds, fold, key = search.folds, len(one.scores), one.candidate.key
    # Leave-one-out predictions are those of all folds.
    at_once = key == "kernel" and bool(folds.parts) and not search.grows
    rows, held = search.seen(one, folds.train(fold)), search.seen(one, folds.held(fold))
    started = time.monotonic()
    model: Any = one.candidate.build(_seed(search, one, fold))
    arguments: dict[str, Any] = {}
    if held is not None:
        arguments = {"validation": held, "validation_labels": "single" if folds.judges is None else "full"}
    if at_once:
        rows, arguments = search.seen(one, (folds.features, folds.observed)), {}
    if isinstance(model, NeuralClassifier):
        model.set_params(early_stopping=False)
        arguments["callbacks"] = [] if one.models or patient else [Pace(end)]
    try:
        step = f"{key}, fold {fold + 1} of {len(folds)}" if len(folds) > 1 else key
        with _under_limit(search, end, step), quiet(TrainingWarning):
            tell(0.0)
            model.fit(*rows, **arguments)
            one.finished = _has_learnt(model) or (one.finished and bool(one.models))
            one.converged = time_left() > 0
            if at_once:
                scores = [model.left_out_[part] for _, part in folds.parts]
            else:
                scores = [] if held is None else [raw_scores(model, held[0]).astype(np.float32)]
    except TooSlow:
        one.finished = one.converged = False
        return False
    history = getattr(model, "history_", None)
    interrupted = history is not None and history.facts.get("stopped") == "interrupted"
    if not (fold and interrupted):  # it would count as much as the complete models of other folds
        one.models.append(model)
        one.scores.extend(scores)
        one.seconds.append(time.monotonic() - started)
        search.done += 1
    if interrupted:
        raise KeyboardInterrupt
    return True


def _has_learnt(model: OnePositiveClassifier) -> bool:
    """Whether a model is more than what its training began with; fewer trees than wanted are a forest."""
    if time_left() > 0 or isinstance(model, ForestClassifier | FrequencyClassifier):
        return True
    return isinstance(model, NeuralClassifier) and model.history_.facts.get("best_epoch", 0) > 0


def finish(search: Search) -> None:
    """Train the final models: of kinds other than networks one of all rows replaces those of the folds."""
    if search.stopped == "interrupted" or not len(search.folds):
        return
    for one in search.contenders:
        key = one.candidate.key
        if one.weight == 0:
            continue
        if one.candidate.is_network:
            for model in one.members:
                round_weights(model.network_)
        elif key == "kernel" or search.folds.judges is not None or search.grows:
            one.final = one.members[0]
        elif key == "frequency" or time.monotonic() + 0.8 * refit_seconds(one) <= search.budget.end:
            learnt = {}
            if key == "logistic":
                learnt["l2"] = float(np.exp(np.mean([np.log(model.l2_) for model in one.members])))
            with _under_limit(search, search.budget.end, f"{key}, all rows"):
                model = one.candidate.build(_seed(search, one, len(search.folds)), **learnt)
                one.final = model.fit(*search.seen(one, (search.folds.features, search.folds.observed)))
            search.done += 1


def _seed(search: Search, one: Contender, fold: int) -> int:
    """A seed for each pair, whatever was trained before."""
    return int(np.random.SeedSequence([search.seed, one.number, fold]).generate_state(1)[0])


@contextmanager
def _under_limit(search: Search, end: float, step: str) -> Iterator[None]:
    """Limit the time of the work inside and tell its progress; the labels were warned about once."""
    with deadline(end), progress_to(partial(_tell, search, step)), quiet(LabelWarning):
        yield


def _tell(search: Search, step: str, _: str, share: float) -> None:
    """Pass on which candidate is trained, and how far the whole search is."""
    if search.listener is None:
        return
    if np.isinf(search.budget.end):
        over = (search.done + share) / max(search.work, search.done + 1)
    else:
        over = (time.monotonic() - search.budget.started) / max(search.budget.length, 1e-9)
    search.listener(step, min(1.0, over))


def _is_large(search: Search, one: Contender) -> bool:
    """Whether one more network of a candidate would make the model file too large."""
    kept = sum(len(other.models) * n_weights(other) for other in search.contenders if other.weight > 0)
    return one.candidate.is_network and kept + n_weights(one) > _MOST_WEIGHTS


def n_weights(one: Contender) -> int:
    """Weights of one network of a candidate; 0 for other kinds."""
    model = one.models[0] if one.models else None
    return sum(p.numel() for p in model.network_.parameters()) if isinstance(model, NeuralClassifier) else 0


def refit_seconds(one: Contender) -> float:
    """Seconds that the final model will take at most."""
    if one.candidate.is_network or one.candidate.key in ("frequency", "kernel") or not one.seconds:
        return 0.0
    return 1.3 * max(one.seconds)


@torch.no_grad()
def round_weights(network: nn.Module) -> None:
    """Round weights to 16 bits, so that a model file needs half the room; larger numbers than fit there stay."""
    for weights in network.parameters():
        half = weights.half()
        weights.copy_(torch.where(half.isfinite(), half.float(), weights))
