"""Random sparse matrices; ``scipy.sparse.random_array`` names its generator differently from release to release."""

import numpy as np
from scipy import sparse


def random_csr(shape, density, seed=0):
    """Return a CSR array whose entries are uniform in [0, 1) with probability ``density``, else not stored."""
    rng = np.random.default_rng(seed)
    return sparse.csr_array(rng.random(shape) * (rng.random(shape) < density))
