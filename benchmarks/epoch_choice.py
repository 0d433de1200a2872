"""Which criterion chooses a good epoch when validation rows have one label each.

python benchmarks/epoch_choice.py [--datasets yeast,CAL500] [--methods an,softmax] [--trials 3] [--out FILE]

Every epoch's network is scored on the validation rows of the study's splits: with their complete labels (the truth that
a user does not have), by the average precision of the observed labels (for one label per row, its mean reciprocal rank)
and by their likelihood. What is shown is the share of the best epoch's average precision that the chosen epoch keeps.
Test rows are not touched.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from onepos import make_classifier, metrics
from onepos.training import Callback
from onepos.training.loop import OBSERVED_LIKELIHOOD, selection_score
from onepos.training.networks import forward_all
from onepos_studies.study.cells import load_trial

CRITERIA = ("average_precision", OBSERVED_LIKELIHOOD)


class Watch(Callback):
    def __init__(self, model, trial):
        self.model, self.trial = model, trial
        self.truth, self.chosen_by = [], {name: [] for name in CRITERIA}

    def on_epoch_end(self, objective, record):
        network = objective.network
        was_training = network.training
        logits = forward_all(network.eval(), self.model.scaler_.transform(self.trial.X_val), "cpu")
        network.train(was_training)
        self.truth.append(metrics.average_precision(self.trial.Y_val, logits))
        for name, values in self.chosen_by.items():
            values.append(selection_score(name, self.trial.observed_val, logits))


def kept(name, number, method, epochs):
    trial = load_trial(name, 0, number, (0.8, 0.1, 0.1), "uniform", 1.0)
    model = make_classifier(method, max_epochs=epochs, early_stopping=False, random_state=number)
    watch = Watch(model, trial)
    model.fit(trial.X_train, trial.observed, callbacks=[watch])
    best = max(watch.truth)
    return {criterion: watch.truth[int(np.argmax(values))] / best for criterion, values in watch.chosen_by.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", default="CAL500,image,scene,yeast,rcv1-s1,corel5k")
    parser.add_argument("--methods", default="an,wan,softmax,smile")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = []
    for name in options.datasets.split(","):
        for method in options.methods.split(","):
            shares = [kept(name, number, method, options.epochs) for number in range(options.trials)]
            means = {criterion: float(np.mean([share[criterion] for share in shares])) for criterion in CRITERIA}
            found.append({"dataset": name, "method": method, **means})
            print(f"{name:<10} {method:<8} " + "  ".join(f"{c} {100 * v:6.2f} %" for c, v in means.items()), flush=True)
            if options.out is not None:
                options.out.write_text(json.dumps(found, indent=1), encoding="utf-8")
    for criterion in CRITERIA:
        print(f"mean, {criterion}: {100 * np.mean([row[criterion] for row in found]):.2f} %")


if __name__ == "__main__":
    main()
