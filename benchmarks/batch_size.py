"""Quality and training time of SMILE at larger batches, with and without a larger learning rate.

    python benchmarks/batch_size.py [DATA SET]        default: rcv1-s1, from $ONEPOS_DATA

Default settings except batch size and learning rate: 10⁻³, or 10⁻³ times √(batch / 16). One split, three seeds. The
quality is the average precision of the best epoch on fully labelled validation rows.
"""

import sys
from statistics import median

from default_path import load_dataset

import onepos
from onepos.datasets import make_single_positive, split

SETTINGS = [(batch, rate) for batch in (16, 64, 256) for rate in {1e-3, 1e-3 * (batch / 16) ** 0.5}]


def main():
    data = load_dataset(sys.argv[1] if len(sys.argv) > 1 else "rcv1-s1", offline=True)
    parts = split(data.X, data.Y, random_state=0)
    observed = make_single_positive(parts.Y_train, random_state=0)
    for batch, rate in SETTINGS:
        quality, seconds = [], []
        for seed in range(3):
            model = onepos.SMILEClassifier(batch_size=batch, learning_rate=rate, random_state=seed)
            model.fit(parts.X_train, observed, validation=(parts.X_val, parts.Y_val), validation_labels="full")
            quality.append(model.history_.facts["best_average_precision"])
            seconds.append(sum(model.history_["seconds"]))
        print(
            f"batch {batch:>3}, rate {rate:.0e}: average precision {median(quality):.3f} "
            f"({min(quality):.3f} to {max(quality):.3f}), {median(seconds):.0f} s of training",
            flush=True,
        )


if __name__ == "__main__":
    main()
