"""Write the table of the demo, src/onepos/datasets/titles.csv.gz, from the table that it is a part of.

``python tools/titles.py netflix_titles.csv`` keeps 1,500 random titles that have at least two of the eight most
frequent genres, and of these genres all. The source is data/netflix_titles.csv of Victoriapm/dbt-basics-workshop
on GitHub at commit bcf10d9880e3a97505a02e3b0bff5be598bbb2fb. Its author put it into the public domain (CC0).
"""

import gzip
import hashlib
import sys
from pathlib import Path

import pandas as pd

PLACE = Path(__file__).parents[1] / "src" / "onepos" / "datasets" / "titles.csv.gz"
SHA256 = "ca916fac454e72f868b7434fb5c7578d3e3047817b6116a8eb146716ab140d55"
COLUMNS = ["title", "type", "country", "release_year", "rating", "duration", "description"]
N_ROWS, N_GENRES = 1_500, 8


def main() -> None:
    """Read the file named on the command line and write the part."""
    content = Path(sys.argv[1])
    if hashlib.sha256(content.read_bytes()).hexdigest() != SHA256:
        raise SystemExit(f"{content} is another version of the table.")
    table = pd.read_csv(content)
    genres = table["listed_in"].str.split(", ")
    kept = set(genres.explode().value_counts().index[:N_GENRES])
    genres = genres.map(lambda names: [name for name in names if name in kept])
    rows = table[genres.map(len) >= 2].sample(N_ROWS, random_state=0).index
    part = table.loc[rows, ["show_id", *COLUMNS]].rename(columns={"show_id": "id"})
    part["title"] = part["title"].str.strip()
    lines = part.assign(genres=genres[rows].map(";".join)).to_csv(index=False, lineterminator="\n")
    PLACE.write_bytes(gzip.compress(lines.encode("utf-8"), mtime=0))


if __name__ == "__main__":
    main()
