"""The default command as a table grows, beside what a user would take instead, all in the same time.

python benchmarks/growth.py 1000 100000 1000000               `onepos fit` and `onepos predict`, budget of 60 seconds
python benchmarks/growth.py 1000000 --budget 120 --method logistic --alone
python benchmarks/growth.py 100000 --labels 1000              short texts with so many labels instead of columns
python benchmarks/growth.py 100000 --busy                     on a busy machine: seconds of one core, not the clock's

The table is generated: 12 numbers, 4 categories of 12 values, a date, an id; 30 labels, 7.5 per row, from 8 hidden
topics. A table is the beginning of the next larger one, and all are tested on the same 5,000 rows. With --labels, a row
is a text of about 12 words, some of them from its labels (3 per row, Zipf), which share words with each other.

Rivals get encoded columns, whose encoding counts as theirs, and as many rows as they can take: LogisticRegression and
RandomForestClassifier of scikit-learn are fitted on twice as many rows as long as the next fit would end in time,
LightGBM on all rows until the time is up. Of texts: nearest class centroid, complement naive Bayes, LogisticRegression.
Each runs in a process of its own, so that its peak memory is known. --busy fits inside of such a process, with one
thread, and counts the seconds that the process computes: budgets then mean the same on a machine that others use.
"""

import argparse
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse

from onepos.metrics import average_precision

N_TEST, N_POSITIVES, N_LABELS, N_TOPICS, N_WORDS = 5000, 7.5, 30, 8, 20_000
LABELS = [f"label{number:02}" for number in range(N_LABELS)]
PIECE = 100_000  # rows drawn at a time
WORLD = np.random.default_rng(0)
NUMBERS = WORLD.normal(size=(N_TOPICS, 12))
CATEGORIES = WORLD.dirichlet(np.full(12, 0.3), (4, N_TOPICS))
SHARES = WORLD.dirichlet(np.full(N_LABELS, 0.1), N_TOPICS)


def columns_of(piece):
    """Rows of a piece of the endless table, and all of their labels; piece 0 is for tests."""
    generator = np.random.default_rng([1, piece])
    n_rows = PIECE if piece else N_TEST
    topics = generator.dirichlet(np.full(N_TOPICS, 0.3), n_rows)

    def draw(shares):
        return (shares.cumsum(axis=1) < generator.random((len(shares), 1))).sum(axis=1).clip(max=shares.shape[1] - 1)

    frame = pd.DataFrame(topics @ NUMBERS + 0.3 * generator.normal(size=(n_rows, 12))).add_prefix("number").round(4)
    frame.insert(0, "id", np.arange(n_rows) + PIECE * piece)
    for place, words in enumerate(CATEGORIES):
        frame[f"category{place}"] = pd.Series(draw(words[draw(topics)])).map("value{}".format)
    days = draw(topics) * 60 + generator.integers(0, 365, n_rows)
    frame["date"] = (np.datetime64("2020-01-01") + days.astype("timedelta64[D]")).astype(str)
    shares = topics @ SHARES
    labels = generator.random(shares.shape) < np.minimum(0.95, N_POSITIVES * shares)
    labels[np.arange(n_rows), shares.argmax(axis=1)] = True
    chosen = np.where(labels, generator.random(labels.shape), 0.0).argmax(axis=1)
    return frame.assign(tag=np.array(LABELS)[chosen]), sparse.csr_array(labels, dtype=np.int8)


def texts_of(piece, n_labels):
    """Texts of a piece, and all of their labels: 3 per row, frequent ones more often."""
    world = np.random.default_rng([2, n_labels])
    own = world.integers(0, N_WORDS, (n_labels, 8))  # words of a label; others have them, too
    frequency = 1.0 / (np.arange(n_labels) + 10.0)
    frequency /= frequency.sum()
    generator = np.random.default_rng([3, piece])
    n_rows = PIECE if piece else N_TEST
    labels = generator.choice(n_labels, (n_rows, 3), p=frequency)
    common = generator.zipf(1.3, (n_rows, 6)) % N_WORDS
    words = own[labels[:, generator.integers(0, 3, 6)], generator.integers(0, 8, (n_rows, 6))]
    words = np.array([f"w{number}" for number in range(N_WORDS)], dtype=object)[np.hstack([words, common])]
    frame = pd.DataFrame({"id": np.arange(n_rows) + PIECE * piece, "text": list(map(" ".join, words))})
    positive = sparse.csr_array((np.ones(labels.size), labels.ravel(), np.arange(0, labels.size + 1, 3)))
    positive.resize((n_rows, n_labels))
    tags = labels[np.arange(n_rows), generator.integers(0, 3, n_rows)]
    return frame.assign(tag=pd.Series(tags).map("label{:05}".format)), (positive > 0).astype(np.int8)


def write(folder, n_rows, n_labels):
    """Write the training table and the test rows; return all labels of the test rows."""
    draw = columns_of if n_labels is None else lambda piece: texts_of(piece, n_labels)
    test, Y = draw(0)
    test.drop(columns="tag").to_csv(folder / "test.csv", index=False)
    for piece in range(1, 2 + (n_rows - 1) // PIECE):
        frame = draw(piece)[0].iloc[: n_rows - PIECE * (piece - 1)]
        frame.to_csv(folder / "train.csv", index=False, header=piece == 1, mode="w" if piece == 1 else "a")
    return Y


def run(command):
    """Seconds, peak in GB and output of a command."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {status}")
    return time.perf_counter() - started, usage.ru_maxrss / 1e6, said


def show(n_rows, name, ap, seconds, peak, rest=""):
    print(f"{n_rows:>10,} {name:<28} AP {ap:.4f} {seconds:6.1f} s {peak:5.2f} GB {rest}", flush=True)


def ours(folder, n_rows, n_labels, Y, method, budget):
    """``onepos fit``, the test rows, and the speed of ``predict`` on up to a million rows."""
    onepos = [sys.executable, "-m", "onepos"]
    fit = [*onepos, "fit", str(folder / "train.csv"), "--label", "tag", "--id", "id", "--out", str(folder / "m.onepos")]
    fit += ["--n-positives", str(N_POSITIVES if n_labels is None else 3), "--method", method]
    fit += ["--budget", str(budget)] + (["--text", "text"] if n_labels else [])
    seconds, peak, said = run(fit)
    predict = [*onepos, "predict", str(folder / "m.onepos")]
    run([*predict, str(folder / "test.csv"), "--out", str(folder / "test.parquet"), "--probabilities"])
    predicted = pd.read_parquet(folder / "test.parquet").set_index("id")
    names = [f"p({label})" for label in (LABELS if n_labels is None else map("label{:05}".format, range(n_labels)))]
    scores = predicted.reindex(columns=names, fill_value=-1.0).to_numpy(np.float32)
    took, memory, _ = run([*predict, str(folder / "train.csv"), "--out", str(folder / "all.parquet")])
    size = (folder / "m.onepos").stat().st_size / 1e6
    rest = f"{n_rows / took:8,.0f} rows/s ({memory:.2f} GB), model {size:.1f} MB"
    show(n_rows, f"onepos {method}", average_precision(Y, scores), seconds, peak, rest)
    print(said, flush=True)


def ours_busy(folder, n_rows, n_labels, Y, method, budget):
    """``TableModel`` on the table, in this process."""
    from onepos.table import TableModel, read_table

    time.monotonic = time.process_time
    started = time.monotonic()
    frame = read_table(folder / "train.csv", plain=["tag", "id"]).frame
    params, text = {"time_budget": budget} if method == "auto" else {}, "text" if n_labels else ()
    n_positives = N_POSITIVES if n_labels is None else 3
    model = TableModel(method=method, params=params, id="id", text=text, n_positives=n_positives).fit(
        frame, label="tag"
    )
    seconds = time.monotonic() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    test = read_table(folder / "test.csv", plain=["id"]).frame
    scores, begun = np.full(Y.shape, -1.0, dtype=np.float32), time.monotonic()
    places = np.array([int(label.removeprefix("label")) for label in model.labels_])
    for first in range(0, len(test), 500):
        scores[first : first + 500, places] = model.predict_proba(test[first : first + 500])
    rate = len(test) / (time.monotonic() - begun)
    show(n_rows, f"TableModel {method}", average_precision(Y, scores), seconds, peak, f"{rate:8,.0f} rows/s")
    if method == "auto":
        records = model.estimator_.history_.to_frame()
        print(
            records.reindex(columns=["method", "rows", "log_likelihood", "weight", "seconds"]).round(3).to_string(),
            flush=True,
        )


def encoded(folder):
    """Features of the training table and of the test rows, and tags."""
    from onepos.table import ColumnEncoder, read_table

    train, test = (read_table(folder / name, plain=["tag", "id"]).frame for name in ("train.csv", "test.csv"))
    encoder = ColumnEncoder(drop=["tag", "id"], text=[name for name in train if name == "text"])
    X = encoder.fit(train).transform(train)
    X_test = encoder.transform(test)
    if not sparse.issparse(X):
        mean, deviation = X.mean(axis=0), X.std(axis=0) + 1e-9
        X, X_test = (X - mean) / deviation, (X_test - mean) / deviation
    names, tags = np.unique(train["tag"], return_inverse=True)
    return X, tags, X_test, names


def doubled(make, X, tags, end):
    """Fit on the largest number of rows, doubled as long as the next fit would end in time."""
    order, n_rows = np.random.default_rng(0).permutation(len(tags)), 5000
    while True:
        begun, rows = time.monotonic(), np.sort(order[:n_rows])
        model = make().fit(X[rows], tags[rows])
        if len(rows) == len(tags) or 3.2 * time.monotonic() - 2.2 * begun > end:
            return model, f"on {len(rows):,}"
        n_rows *= 2


def boosted(X, tags, end, n_jobs):
    import lightgbm

    def stop(environment):
        if time.monotonic() > end:
            raise lightgbm.callback.EarlyStopException(environment.iteration, [])

    stop.order = 0
    model = lightgbm.LGBMClassifier(n_estimators=60, num_leaves=31, verbose=-1, n_jobs=n_jobs)
    model.fit(X, tags, callbacks=[stop])
    return model, f"{model.booster_.current_iteration()} rounds"


class Centroids:
    """Cosine between a row and the sum of the rows of a class."""

    def fit(self, X, tags):
        self.classes_ = np.unique(tags)
        member = sparse.csr_array((np.ones(len(tags)), (np.searchsorted(self.classes_, tags), np.arange(len(tags)))))
        sums = member @ X
        norms = np.sqrt(np.asarray(sums.multiply(sums).sum(axis=1)).ravel())
        self.centroids = sparse.diags_array(1.0 / np.maximum(norms, 1e-12)) @ sums
        return self

    def predict_proba(self, X):
        return (X @ self.centroids.T).toarray()


def instead(name, folder, n_rows, Y, budget, n_labels, busy):
    """Fit what a user would take instead, in a process of its own."""
    if busy:
        time.monotonic = time.process_time
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import ComplementNB

    started = time.monotonic()
    X, tags, X_test, names = encoded(folder)
    end = started + budget
    n_jobs = 1 if busy else 2
    makes = {
        "LogisticRegression": lambda: LogisticRegression(max_iter=200),
        "RandomForestClassifier": lambda: RandomForestClassifier(
            200, min_samples_leaf=5, n_jobs=n_jobs, random_state=0
        ),
        "centroids": Centroids,
        "ComplementNB": ComplementNB,
    }
    model, how = boosted(X, tags, end, n_jobs) if name == "LightGBM" else doubled(makes[name], X, tags, end)
    seconds, begun = time.monotonic() - started, time.monotonic()
    scores = np.full(Y.shape, -1e9, dtype=np.float32)
    places = np.array([int(label.removeprefix("label")) for label in names])[model.classes_]
    made = model.predict_proba(X_test) if name != "ComplementNB" else model.predict_joint_log_proba(X_test)
    scores[:, places] = made
    rate = len(scores) / (time.monotonic() - begun)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    show(n_rows, f"{name} {how}", average_precision(Y, scores), seconds, peak, f"{rate:8,.0f} rows/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="+", type=int)
    parser.add_argument("--labels", type=int)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--alone", action="store_true", help="without rivals")
    parser.add_argument("--rivals", action="store_true", help="without onepos")
    parser.add_argument("--busy", action="store_true", help="count seconds of one core")
    options = parser.parse_args()
    if options.busy:
        os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    context = multiprocessing.get_context("spawn")
    rivals = ("LogisticRegression", "LightGBM", "RandomForestClassifier")
    if options.labels:
        rivals = ("centroids", "ComplementNB", "LogisticRegression")
    for n_rows in options.rows:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            Y = write(folder, n_rows, options.labels)
            runs = []
            if not options.rivals:
                arguments = (folder, n_rows, options.labels, Y, options.method, options.budget)
                runs.append((ours_busy if options.busy else ours, arguments))
            for rival in () if options.alone else rivals:
                runs.append((instead, (rival, folder, n_rows, Y, options.budget, options.labels, options.busy)))
            for function, arguments in runs:
                process = context.Process(target=function, args=arguments)
                process.start()
                process.join()


if __name__ == "__main__":
    main()
