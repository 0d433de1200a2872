"""A small table as a folder of parquet files."""

import numpy as np
import pandas as pd

from onepos.datasets import make_known_posterior


def frame(n_rows=240):
    """Six numbers, a category, and one tag a row; some numbers and some tags are missing."""
    known = make_known_posterior(n_rows, 6, 5, random_state=0)
    made = pd.DataFrame(known.X, columns=[f"f{j}" for j in range(6)])
    made["place"] = np.where(known.X[:, 0] > 0, "sea", "city")
    made["tag"] = [f"t{j}" for j in known.observed.argmax(axis=1)]
    made.loc[made.index % 50 == 7, "f3"] = np.nan
    made.loc[made.index % 60 == 11, "tag"] = None
    return made


def write_shards(folder, n_files=4, n_rows=240):
    """Write the table as files of different sizes; returns the folder."""
    folder.mkdir(parents=True)
    rows = frame(n_rows)
    edges = np.linspace(0, 1, n_files + 1) ** 1.3 * n_rows
    for number, (first, last) in enumerate(zip(edges[:-1].astype(int), edges[1:].astype(int), strict=True)):
        rows.iloc[first:last].to_parquet(folder / f"{number:02}.parquet")
    return folder
