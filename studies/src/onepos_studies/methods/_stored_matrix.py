"""What a model file holds of training rows, which may be sparse."""

from dataclasses import dataclass, replace
from typing import Any

from scipy import sparse

from onepos._utils import storage


@dataclass(frozen=True)
class StoredMatrix(storage.Rule):
    """Features in memory: an array, or a CSR matrix. The shape has two words, as for ``Array``."""

    shape: str

    def write(self, value: Any, at: storage.Place) -> Any:
        """Add the array or the parts of the CSR matrix to the file."""
        if not sparse.issparse(value):
            return storage.Array(self.shape).write(value, at)
        parts = {name: getattr(value, name) for name in ("data", "indices", "indptr")}
        return {"shape": list(value.shape)} | {
            name: storage.Array("").write(part, at.at(name)) for name, part in parts.items()
        }

    def read(self, entry: Any, at: storage.Place) -> Any:
        """Return the matrix; compiled code reads it, so that all indices are checked."""
        if not isinstance(entry, dict):
            return storage.Array(self.shape).read(entry, at)
        inner = replace(at, sizes={name: size for name, size in at.sizes.items() if name != "entries"})
        words = self.shape.split()
        parts = {
            "shape": storage.List(storage.SIZE, least=2, most=2),
            "data": storage.Array("entries"),
            "indices": storage.Array("entries", "i4 i8", 0, below=words[1]),
            "indptr": storage.Array(f"{words[0]}+1", "i4 i8"),
        }
        for word, size in zip(words, parts["shape"].read(entry.get("shape"), at), strict=True):
            at.set_size(word, size)
            inner.set_size(word, size)
        entry = storage.Record(parts).read(entry, inner)
        storage.check_starts(entry["indptr"], len(entry["indices"]), f"{at.path}.indptr")
        return sparse.csr_array((entry["data"], entry["indices"], entry["indptr"]), shape=entry["shape"])
