"""A process that has done much else gives the bits of a fresh one.

pytest-xdist hands out files with few tests last, so that by now most of the suite has run in this process.
"""

import hashlib
import subprocess
import sys
from inspect import getsource

import numpy as np
import pytest


def learnt(key):
    """Return digests of what a method learnt with a fixed seed: soft labels, logits."""
    from onepos import make_classifier
    from onepos.datasets import make_known_posterior

    data = make_known_posterior(400, 8, 6, random_state=0)
    model = make_classifier(key, max_epochs=4, random_state=0).fit(data.X, data.observed)
    found = [model.decision_function(data.X), getattr(model, "soft_labels_", np.zeros(0))]
    return " ".join(hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest() for values in found)


@pytest.mark.parametrize("key", ["an", "smile"])
def test_a_used_process_gives_the_bits_of_a_fresh_one(key):
    script = f"import hashlib\nimport numpy as np\n{getsource(learnt)}\nprint(learnt({key!r}))"
    fresh = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert learnt(key) == fresh.strip()
