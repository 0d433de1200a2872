"""A small real table with all of its tags: films and series with their genres."""

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def load_titles() -> "pd.DataFrame":
    """Return 1,500 films and series, one row each, with ``genres`` joined by ";".

    They are random rows of a table of titles on Netflix in 2021 that are listed under at least two of the eight most
    frequent of its 42 genres. Of these eight, ``genres`` has all that the table lists. The table was published by its
    author as CC0 (public domain); ``tools/titles.py`` in the repository names the source and makes the part.

    Examples
    --------
    >>> from onepos.datasets import load_titles
    >>> load_titles().loc[0, ["title", "type", "genres"]].tolist()
    ['Sudani from Nigeria', 'Movie', 'Comedies;Dramas;International Movies']
    """
    import pandas as pd

    place = files("onepos.datasets") / "titles.csv.gz"
    with place.open("rb") as stream:
        return pd.read_csv(stream, compression="gzip", keep_default_na=False)
