"""Section roofline: useful floating-point work per second, as a share of what one thread can do at best."""

import problems
import torch
import work
from bench_smile import pair
from epochs import epoch_seconds
from harness import alternate, record, seconds_of, spread

TITLE = "Share of the machine's arithmetic"
ABOUT = """
Operations per second of the matrix products in an epoch, counted from layer sizes (`work.py`), divided by the rate of
one 4096 × 4096 × 4096 single-precision product on the same thread in the same repeat. Products that the encoder skips
(with zeros, and with rows shared by neighbourhoods) count as done. The rest is elementwise work, memory traffic and
the cost of starting each operation.
"""
DATASETS = ("corel5k", "rcv1-s1", "delicious")
BATCHES = (16, 256)
SIZE = 4096


def measure(options):
    torch.set_num_threads(1)
    yield from problems.on_each(options.choose(DATASETS), lambda name: _shares(name, options.repeats))


def _shares(name, repeats):
    X, Y = problems.single_positive(name)
    left, right = torch.rand(SIZE, SIZE), torch.rand(SIZE, SIZE)
    for batch_size in BATCHES:
        models = pair(batch_size)
        calls = {key: lambda model=model: epoch_seconds(model, X, Y) for key, model in models.items()}
        raw = alternate({**calls, "sgemm": seconds_of(lambda: left @ right)}, repeats)
        best = [2 * SIZE**3 / seconds for seconds in raw["sgemm"]]
        for key, operations in (("AN", _an(X, Y)), ("SMILE", _smile(X, Y, models["SMILE"]))):
            rates = [operations / seconds for seconds in raw[key]]
            share = spread([100 * rate / top for rate, top in zip(rates, best, strict=True)])
            speeds = {f"{key}, Gflop/s": [r / 1e9 for r in rates], "sgemm, Gflop/s": [b / 1e9 for b in best]}
            yield record(f"{name}, batch {batch_size}", f"{key} epoch / sgemm", share, unit="%", raw=speeds)


def _sizes(X, Y):
    return *X.shape, Y.shape[1], max(128, Y.shape[1])


def _an(X, Y):
    return work.assume_negative(*_sizes(X, Y))


def _smile(X, Y, model):
    widths = {"encoder_hidden": 128, "latent_size": 8, "decoder_hidden": 32}  # the constants of onepos.methods.smile
    return work.smile(*_sizes(X, Y), k=model.n_neighbors, batch=model.batch_size, **widths)
