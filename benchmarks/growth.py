"""The default method as a table grows, beside LogisticRegression on as many rows as fit in the same time.

python benchmarks/growth.py 50000 200000 1000000            budget of 60 seconds, in memory
python benchmarks/growth.py 1000000 --budget 120 --method logistic

The table is generated: 12 numbers, 4 categories of 12 values, a date; 30 labels, 7.5 per row, from 8 hidden topics.
Each size runs in a process of its own, so that its peak memory is known.
"""

import argparse
import multiprocessing
import resource
import time

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from onepos.datasets import make_single_positive
from onepos.metrics import average_precision
from onepos.table import ColumnEncoder, TableModel

N_TEST, N_POSITIVES, N_LABELS, N_TOPICS = 5000, 7.5, 30, 8
LABELS = [f"label{number:02}" for number in range(N_LABELS)]


def make_table(n_rows, seed):
    """Rows with one tag each, test rows, and all labels of the test rows."""
    generator = np.random.default_rng(seed)
    topics = generator.dirichlet(np.full(N_TOPICS, 0.3), n_rows + N_TEST)
    numbers = topics @ generator.normal(size=(N_TOPICS, 12)) + 0.3 * generator.normal(size=(len(topics), 12))
    frame = pd.DataFrame(numbers, columns=[f"number{place}" for place in range(12)])
    for place in range(4):
        values = generator.dirichlet(np.full(12, 0.3), N_TOPICS)[_draw(topics, generator)].cumsum(axis=1)
        codes = (values < generator.random((len(topics), 1))).sum(axis=1).clip(max=11)
        frame[f"category{place}"] = pd.Categorical.from_codes(codes, [f"value{code}" for code in range(12)]).astype(str)
    days = _draw(topics, generator) * 60 + generator.integers(0, 365, len(topics))
    frame["date"] = (np.datetime64("2020-01-01") + days.astype("timedelta64[D]")).astype(str)
    shares = topics @ generator.dirichlet(np.full(N_LABELS, 0.3), N_TOPICS)
    labels = (generator.random(shares.shape) < np.minimum(0.95, N_POSITIVES * shares)).astype(np.int8)
    labels[np.arange(len(labels)), shares.argmax(axis=1)] = 1
    train, test = frame.iloc[:n_rows].copy(), frame.iloc[n_rows:]
    observed = np.asarray(make_single_positive(labels[:n_rows], random_state=seed))
    train["tag"] = np.asarray(LABELS)[observed.argmax(axis=1)]
    return train, test, labels[n_rows:]


def _draw(topics, generator):
    """One topic per row."""
    return (topics.cumsum(axis=1) < generator.random((len(topics), 1))).sum(axis=1).clip(max=N_TOPICS - 1)


def fit_default(n_rows, method, budget):
    train, test, Y = make_table(n_rows, 0)
    started = time.perf_counter()
    params = {"time_budget": budget} if method == "auto" else {}
    model = TableModel(method=method, params=params, n_positives=N_POSITIVES, random_state=0).fit(train, label="tag")
    seconds = time.perf_counter() - started
    again = test.iloc[np.arange(min(n_rows, 50_000)) % len(test)]
    started = time.perf_counter()
    model.predict_proba(again)
    rate = len(again) / (time.perf_counter() - started)
    ap = average_precision(Y, np.asarray(model.predict_proba(test)[LABELS]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{n_rows:>9,} {method:<20} AP {ap:.4f} {seconds:6.1f} s {peak:5.2f} GB {rate:9,.0f} rows/s", flush=True)
    if method == "auto":
        columns = ["method", "rows", "log_likelihood", "weight", "seconds"]
        print(model.estimator_.history_.to_frame().reindex(columns=columns).round(3).to_string(index=False))
        print(model.estimator_.history_.facts, flush=True)


def fit_instead(n_rows, budget):
    """LogisticRegression on the largest number of rows, doubled as long as the next fit would end in time."""
    train, test, Y = make_table(n_rows, 0)
    started = time.perf_counter()
    tags = train.pop("tag").to_numpy()
    encoder = ColumnEncoder().fit(train)
    X, X_test = encoder.transform(train), encoder.transform(test)
    mean, deviation = X.mean(axis=0), X.std(axis=0) + 1e-9
    X, X_test = (X - mean) / deviation, (X_test - mean) / deviation
    n_fitted, seconds = min(n_rows, 5000), 0.0
    while True:
        begun = time.perf_counter()
        model = LogisticRegression(max_iter=200).fit(X[:n_fitted], tags[:n_fitted])
        seconds, done = time.perf_counter() - begun, n_fitted
        n_fitted = min(n_rows, 2 * n_fitted)
        if n_fitted == done or time.perf_counter() - started + 2 * seconds > budget:
            break
    total = time.perf_counter() - started
    begun = time.perf_counter()
    model.predict_proba(X_test)
    rate = len(X_test) / (time.perf_counter() - begun)
    scores = np.zeros(Y.shape)
    scores[:, np.searchsorted(LABELS, model.classes_)] = model.predict_proba(X_test)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    name = f"LR on {done:,}"
    ap = average_precision(Y, scores)
    print(f"{n_rows:>9,} {name:<20} AP {ap:.4f} {total:6.1f} s {peak:5.2f} GB {rate:9,.0f} rows/s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="+", type=int)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--alone", action="store_true", help="without LogisticRegression")
    options = parser.parse_args()
    for n_rows in options.rows:
        runs = [(fit_default, (n_rows, options.method, options.budget))]
        runs += [] if options.alone else [(fit_instead, (n_rows, options.budget))]
        for function, arguments in runs:
            process = multiprocessing.get_context("spawn").Process(target=function, args=arguments)
            process.start()
            process.join()


if __name__ == "__main__":
    main()
