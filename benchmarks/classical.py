"""Time and peak memory of the classical methods on corel16k-s1 and delicious, each in a process of its own.

    python benchmarks/classical.py [data set …] [--method KEY …]
    python benchmarks/classical.py largest     30,000 rows, 500 features, 1,000 labels, made up; for memory

Data sets come from $ONEPOS_DATA, else from ../shared/data; what is not there is left out and said so. A fifth of the
rows is kept for the test; one positive of each training row is observed. Settings are the defaults, the choice of the
strength on held-out rows included. Two threads at most.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "2")

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
if "ONEPOS_DATA" not in os.environ and SHARED.is_dir():
    os.environ["ONEPOS_DATA"] = str(SHARED)

CLASSES = {
    "glocal": ("onepos_studies.methods.glocal", "GLOCALClassifier"),
    "mlml": ("onepos_studies.methods.mlml", "MLMLClassifier"),
    "d2ml": ("onepos_studies.methods.d2ml", "D2MLClassifier"),
}
#: One strength a method: the largest problem is about memory, which does not grow with the number of strengths.
ONE_STRENGTH = {
    "glocal": {"feature_l2": 10.0},
    "mlml": {"instance_smoothness": 1.0},
    "d2ml": {"rank_weight": 0.3},
}
LIMIT_SECONDS, LIMIT_MEGABYTES = 600, 4096


def largest():
    """Sparse 0/1 features and about five labels a row that follow from them."""
    import numpy as np
    from scipy import sparse
    from sklearn.utils import Bunch

    rng = np.random.default_rng(0)
    X = sparse.random_array((37_500, 500), density=0.03, rng=rng, format="csr")
    X.data[:] = 1.0
    scores = X @ rng.standard_normal((500, 20)) @ rng.standard_normal((20, 1000))
    top = np.argpartition(-scores, 5, axis=1)[:, :5]
    Y = np.zeros(scores.shape, dtype=np.uint8)
    np.put_along_axis(Y, top, 1, axis=1)
    return Bunch(X=X, Y=Y)


def measure(name, key):
    """Load, split, fit, predict; the record is printed as JSON (for the parent process)."""
    import resource
    import time
    import warnings
    from importlib import import_module

    import numpy as np

    from onepos.datasets import make_single_positive
    from onepos.metrics import evaluate
    from onepos_studies.datasets import load_dataset

    warnings.simplefilter("ignore")
    data = largest() if name == "largest" else load_dataset(name, offline=True)
    order = np.random.default_rng(0).permutation(len(data.Y))
    test, train = np.split(order, [len(order) // 5])
    observed = make_single_positive(data.Y[train], random_state=0)
    module, class_name = CLASSES[key]
    model = getattr(import_module(module), class_name)(
        random_state=0, **(ONE_STRENGTH[key] if name == "largest" else {})
    )
    started = time.perf_counter()
    model.fit(data.X[train], observed)
    fitted = time.perf_counter()
    scores = model.decision_function(data.X[test])
    record = {
        "fit_seconds": fitted - started,
        "predict_seconds": time.perf_counter() - fitted,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "average_precision": evaluate(data.Y[test], scores)["average_precision"],
        "shape": [*data.X.shape, data.Y.shape[1]],
        "validation_scores": model.validation_scores_,
    }
    print(json.dumps(record))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["corel16k-s1", "delicious"])
    parser.add_argument("--method", nargs="+", choices=CLASSES, default=list(CLASSES))
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.names[0], arguments.method[0])
        return
    from onepos_studies.datasets import list_datasets

    available = {"largest", *list_datasets().query("available")["name"]}
    print("| data set | n × q × c | method | fit, s | predict, s | peak, MB | average precision | in limits |")
    print("|---|---|---|---|---|---|---|---|")
    for name in arguments.names:
        if name not in available:
            print(f"| {name} | not in the data folder | | | | | | |")
            continue
        for key in arguments.method:
            command = [sys.executable, __file__, name, "--method", key, "--measure"]
            r = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            shape = " × ".join(str(size) for size in r["shape"])
            good = r["fit_seconds"] < LIMIT_SECONDS and r["peak_megabytes"] < LIMIT_MEGABYTES
            print(
                f"| {name} | {shape} | {key} | {r['fit_seconds']:.0f} | {r['predict_seconds']:.1f} | "
                f"{r['peak_megabytes']:.0f} | {r['average_precision']:.4f} | {'yes' if good else 'NO'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
