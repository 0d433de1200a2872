"""A small table for tests: captions whose words tell the labels, one of which is written down."""

import numpy as np
import pandas as pd

WORDS = {"beach": "sand sea sun wave", "city": "tower street car tram", "night": "dark moon star lamp"}


def photo_table(n_rows=90, seed=0):
    """Rows with an id, text, numbers with a gap, a category, yes/no, the observed tag and all tags."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(n_rows):
        labels = sorted(random.choice(list(WORDS), random.integers(1, 3), replace=False))
        words = [word for label in labels for word in random.choice(WORDS[label].split(), 3)]
        rows.append(
            {
                "id": f"p{number:03}",
                "caption": " ".join([*words, "near", "the"]),
                "width": int(random.choice([640, 800, 1024])),
                "light": round(float(random.normal(-20 if "night" in labels else 20, 5)), 2),
                "camera": str(random.choice(["canon", "nokia"])),
                "flash": str(random.choice(["yes", "no"])),
                "tag": str(random.choice(labels)),
                "tags": ";".join(labels),
            }
        )
    frame = pd.DataFrame(rows)
    frame.loc[3, "light"] = np.nan
    frame.loc[5, "tag"] = None
    return frame
