"""Array aliases used across the library."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.integer[Any]]
BoolArray: TypeAlias = NDArray[np.bool_]

#: A dense array, a SciPy sparse matrix or array, or a pandas DataFrame of features.
MatrixLike: TypeAlias = Any
