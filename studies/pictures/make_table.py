"""Write the table of the study of pictures.

python studies/pictures/make_table.py LABELS.csv PICTURES voc2012.parquet

LABELS.csv has a column `picture` and a column `tags`, joined by ";". PICTURES is the folder of the files, or a .npy
file that has their features in the same order.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd


def features_of(labels: pd.DataFrame, pictures: Path) -> np.ndarray:
    """Return the stored features, or embed the pictures."""
    if pictures.suffix == ".npy":
        return np.load(pictures).astype(np.float32)
    from onepos.table import ColumnEncoder

    return ColumnEncoder(image="picture", image_folder=pictures).fit(labels[["picture"]]).transform(labels)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("labels", "pictures", "out"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    labels = pd.read_csv(given.labels)[["picture", "tags"]]
    made = pd.DataFrame(features_of(labels, given.pictures)).add_prefix("f")
    pd.concat([labels, made], axis=1).to_parquet(given.out)
