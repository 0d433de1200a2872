"""Section batch: quality and time of SMILE at larger batches, with and without a larger learning rate."""

import problems
from harness import alternate, ratio, record, spread

from onepos import SMILEClassifier
from onepos._utils.context import remember_work
from onepos.datasets import make_single_positive, split

TITLE = "SMILE at larger batches"
ABOUT = """
Default settings, except batch size and learning rate: 10⁻³ at every batch size, or 10⁻³ times √(batch/16). One split,
and one seed per repeat (at least three). The table has the average precision of the best epoch on fully labelled
validation rows, and the seconds of the training loop with early stopping, compared with batch 16 and the same seed.
"""
DATASETS = ("corel5k", "rcv1-s1", "tmc2007")
BATCHES = (16, 64, 256, 1024)
RULES = {"same rate": lambda batch: 1e-3, "rate × √(batch/16)": lambda batch: 1e-3 * (batch / 16) ** 0.5}


SETTINGS = [(batch, rule) for batch in BATCHES for rule in RULES if batch > 16 or rule == "same rate"]


def measure(options):
    yield from problems.on_each(options.choose(DATASETS), lambda name: _compare(name, max(options.repeats, 3)))


def _compare(name, seeds):
    data = problems.load(name)
    parts = split(data.X, data.Y, random_state=0)
    observed = make_single_positive(parts.Y_train, random_state=0)
    found = {setting: {"average precision": [], "best epoch": [], "epochs": []} for setting in SETTINGS}

    def train(setting):
        batch_size, rule = setting
        seed = len(found[setting]["epochs"])
        model = SMILEClassifier(batch_size=batch_size, learning_rate=RULES[rule](batch_size), random_state=seed)
        with remember_work():
            model.fit(parts.X_train, observed, validation=(parts.X_val, parts.Y_val), validation_labels="full")
        facts = model.history_.facts
        for what, value in zip(
            found[setting], (facts["best_average_precision"], facts["best_epoch"], len(model.history_)), strict=True
        ):
            found[setting][what].append(value)
        return sum(model.history_["seconds"])

    seconds = alternate({setting: lambda setting=setting: train(setting) for setting in SETTINGS}, seeds)
    base = SETTINGS[0]
    for setting in SETTINGS:
        case = f"{name}, batch {setting[0]}" + ("" if setting == base else f", {setting[1]}")
        quality = spread(found[setting]["average precision"])
        yield record(case, "validation average precision", quality, unit="", raw=found[setting])
        times = {"batch 16, s": seconds[base], "this, s": seconds[setting]}
        yield record(case, "batch 16 / this, s of training", ratio(*times.values()), raw=times)
