"""Texts and pictures of a table as features: vectors of an embedder, kept on disk for the next time."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import compress
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray

from onepos._utils import storage
from onepos._utils.context import not_counted, option, other_warnings, tell
from onepos._utils.files import is_writable, replaced_when_done, user_cache
from onepos._utils.machine import require
from onepos.exceptions import DataFileError, MissingDependencyError
from onepos.table.embedders import OURS, WEIGHTS, embedder_of_ours, named_embedder
from onepos.table.kinds import Tally, as_words
from onepos.table.pictures import BadPicture, digest_of_picture, open_picture

_TEXTS, _PICTURES = 256, 16  # Encoded at a time
_STORED = 256  # Vectors in one file
_MOST_BYTES = 2 << 30  # Kept on disk per embedder, the newest files

Vectors = dict[bytes, NDArray[np.float32]]


def assign(embed: Any, *, text: Sequence[str], image: str | None) -> dict[bool, Any]:
    """Return, of one or two embedders, that of texts at False and that of pictures at True.

    One of the user's own that does not say is for texts, if there are text columns.
    """
    embedders = list(embed) if isinstance(embed, list | tuple) else [] if embed is None else [embed]
    assigned: dict[bool, Any] = {}
    for one in embedders:
        made = named_embedder(one) if isinstance(one, str) else one
        if not callable(getattr(made, "encode", None)):
            raise ValueError(
                f"{option('embed')} takes a name, a folder, or an object with encode(list); got {type(made).__name__}."
            )
        pictures = bool(getattr(made, "pictures", image is not None and not text))
        what, column = ("pictures", "image") if pictures else ("texts", "text")
        if pictures in assigned:
            raise ValueError(f"{option('embed')} takes one embedder of texts and one of pictures; got two of {what}.")
        if not (image if pictures else text):
            raise ValueError(
                f"{option('embed')} gives an embedder of {what}, but no column is named as {column}: give "
                f"{option(column, 'COLUMN')}."
            )
        assigned[pictures] = made
    return assigned


def _may_be_fingerprint(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(map(storage.FINITE.fits, value)))


class Embedded:
    """Text columns, joined, or a column of pictures, as vectors: centred, of mean length 1; a gap is the mean."""

    #: The weights of the embedder are not stored.
    _stored: ClassVar[storage.Rules] = {
        "columns": storage.TEXTS,
        "pictures": storage.TRUTH,
        "name": storage.TEXT,
        "own": storage.TRUTH,
        "fingerprint": storage.Value("a text or a list of finite numbers", _may_be_fingerprint),
        "factor": storage.POSITIVE,
        "mean": storage.Array("width"),
    }

    name: str
    fingerprint: Any
    own: bool
    mean: NDArray[np.float32] = np.zeros(0, dtype=np.float32)
    factor: float

    def __init__(self, columns: list[str], embed: Any, *, pictures: bool, folder: str | Path = "") -> None:
        self.columns, self.pictures, self.folder = columns, pictures, Path(folder)
        self.use(embed)

    def use(self, embed: Any) -> None:
        """Take an embedder, which opens its files when they are needed."""
        self._embedder = embed
        self._checked = False
        self._known: Vectors = {}  # of the last call

    @not_counted()  # a time budget is for training
    def fit(self, frame: pd.DataFrame) -> Self:
        """Learn mean and length of the vectors of training rows."""
        self.name = str(getattr(self._embedder, "name", type(self._embedder).__name__))
        self.own = not isinstance(self._embedder, OURS)
        self.fingerprint, self._checked = self._identity(), True
        rows, vectors, _ = self._vectors(frame)
        if not rows:
            what = "a picture that can be read" if self.pictures else "text"
            raise DataFileError(f"no row of column {self.columns[0]!r} has {what}. Check it, or leave it out.")
        self.mean = vectors.mean(axis=0)
        length = float(np.linalg.norm(vectors - self.mean, axis=1).mean())
        self.factor = 1.0 / length if length > 0 else 1.0
        return self

    @property
    def n_features(self) -> int:
        """Width of the vectors."""
        return len(self.mean)

    @not_counted()
    def transform(self, frame: pd.DataFrame, tally: Tally) -> NDArray[np.float32]:
        """Return the features; ``tally`` counts gaps and notes broken pictures."""
        self._check()
        rows, vectors, reasons = self._vectors(frame)
        if self.pictures:
            column = self.columns[0]
            tally.count(column, len(frame) - len(rows) - len(reasons), "missing, taken as the mean picture")
            # Rows of a file are counted from 1 on, as in predictions.
            names = [name + 1 if isinstance(name, int | np.integer) else repr(name) for name in frame.index]
            for row, why in sorted(reasons.items()):
                tally.broken.setdefault(column, []).append(f"row {names[row]}: {why}")
        values = np.zeros((len(frame), self.n_features), dtype=np.float32)
        if rows:
            values[rows] = (vectors - self.mean) * np.float32(self.factor)
        return values

    def _check(self) -> None:
        """Raise DataFileError if this is not the embedder of the training."""
        if self._checked:
            return
        how = f"Give the embedder of the training: {option('embed', 'NAME or package.module:Class')}."
        if self._embedder is None:
            raise DataFileError(f"the model needs {self.name!r}, an embedder of the user's own. {how}")
        try:
            identity = self._identity()
        except (DataFileError, MissingDependencyError) as error:
            raise DataFileError(f"the model needs the embedder {self.name!r}: {error} {how}") from error
        expected = self.fingerprint
        same = identity == expected
        if isinstance(identity, list) and isinstance(expected, list) and len(identity) == len(expected):
            same = np.allclose(identity, expected, rtol=1e-3, atol=1e-3 * float(np.abs(identity).max(initial=0)))
        if not same:
            raise DataFileError(
                f"the model was trained with another embedder than the {getattr(self._embedder, 'name', 'given')!r} "
                f"that is here: expected fingerprint {str(expected)[:12]}, got {str(identity)[:12]}. {how}"
            )
        self._checked = True

    def _identity(self) -> str | list[float]:
        """Return the embedder's fingerprint, or the vector of a sample if it has none."""
        fingerprint = getattr(self._embedder, "fingerprint", None)
        if fingerprint is not None:
            return str(fingerprint)
        sample: Any = "A sample of text, 1 2 3."
        if self.pictures:
            image: Any = require("PIL.Image", extra="images", purpose="reading pictures")
            shades = np.arange(32 * 32 * 3, dtype=np.uint32).reshape(32, 32, 3) * 7919 >> 5
            sample = image.fromarray((shades & 255).astype(np.uint8))
        return [float(f"{value:.5g}") for value in self._encode([sample])[0]]

    def _vectors(self, frame: pd.DataFrame) -> tuple[list[int], NDArray[np.float32], dict[int, str]]:
        """Return the rows that have a vector, their vectors, and of rows with broken pictures the reason."""
        words = zip(*(as_words(frame[name]) for name in self.columns), strict=True)
        cells = [". ".join(part for part in row if part is not None) for row in words]
        keys: dict[int, bytes] = {}
        reasons: dict[int, str] = {}
        for row, cell in enumerate(cells):
            try:
                if cell:
                    keys[row] = self._digest_of(cell)
            except BadPicture as error:
                reasons[row] = str(error)
        broken = self._embed({key: cells[row] for row, key in keys.items()})
        reasons |= {row: broken[key] for row, key in keys.items() if key in broken}
        vectors = {row: self._known[key] for row, key in keys.items() if key not in broken}
        lengths = {self.n_features or len(vector) for vector in vectors.values()} | set(map(len, vectors.values()))
        if len(lengths) > 1:
            raise DataFileError(
                f"expected vectors of one length from the embedder {self.name!r}, in training and now; got lengths "
                f"{sorted(lengths)}. Its fingerprint must change when its vectors do."
            )
        return list(vectors), np.array(list(vectors.values())), reasons

    def _embed(self, cells: dict[bytes, str]) -> dict[bytes, str]:
        """Make vectors known, from the last call, the cache or the embedder; return the reasons of broken pictures."""
        self._known = {key: vector for key, vector in self._known.items() if key in cells}
        folder = _cache_folder(self._embedder)
        self._known |= _read_cache(folder, cells.keys() - self._known.keys())
        order = [key for key in cells if key not in self._known]
        if not self.pictures:
            order.sort(key=lambda key: -len(cells[key]))  # texts of one length together: less padding
        broken: dict[bytes, str] = {}
        fresh: Vectors = {}
        for done, (vectors, reasons) in enumerate(self._pieces({key: cells[key] for key in order}), start=1):
            broken |= reasons
            fresh |= vectors
            if len(fresh) >= _STORED:
                _write_cache(folder, fresh)
                self._known |= fresh
                fresh = {}
            tell(min(1.0, done * self._piece / len(order)), "embedding")
        if fresh:
            _write_cache(folder, fresh)
        self._known |= fresh
        return broken

    @property
    def _piece(self) -> int:
        return _PICTURES if self.pictures else _TEXTS

    def _pieces(self, cells: dict[bytes, str]) -> Iterator[tuple[Vectors, dict[bytes, str]]]:
        """Encode pieces of the cells, on a thread per core if the embedder allows it; yield also what is broken."""
        from onepos.training.machine import limited_threads

        keys = list(cells)
        in_threads = bool(getattr(self._embedder, "in_threads", False))
        threads = Parallel(n_jobs=-1 if in_threads else 1, prefer="threads", return_as="generator")
        pieces = (keys[start : start + self._piece] for start in range(0, len(keys), self._piece))
        # Each piece has a thread of its own. Decoders warn of what they repair.
        one_thread = limited_threads(1) if in_threads else nullcontext()
        with one_thread, other_warnings("ignore") if self.pictures else nullcontext():
            yield from threads(delayed(self._encode_piece)({key: cells[key] for key in piece}) for piece in pieces)

    def _encode_piece(self, cells: dict[bytes, str]) -> tuple[Vectors, dict[bytes, str]]:
        """Return the vectors, and the reasons of pictures that have none."""
        items: dict[bytes, Any] = {}
        broken: dict[bytes, str] = {}
        for key, cell in cells.items():
            try:
                items[key] = open_picture(self.folder / cell) if self.pictures else cell
            except BadPicture as error:
                broken[key] = str(error)
        return dict(zip(items, self._encode(list(items.values())), strict=True)) if items else {}, broken

    def _digest_of(self, cell: str) -> bytes:
        return digest_of_picture(self.folder / cell, self.folder) if self.pictures else _digest(_bytes(cell))

    def _encode(self, items: list[Any]) -> NDArray[np.float32]:
        vectors = np.asarray(self._embedder.encode(items), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(items) or not np.isfinite(vectors).all():
            raise ValueError(
                f"encode of the embedder must return finite numbers of shape ({len(items)}, n_features); got "
                f"{'NaN or infinity' if vectors.ndim == 2 and len(vectors) == len(items) else vectors.shape}."
            )
        return vectors

    @classmethod
    def _from_stored(cls, fields: dict[str, Any]) -> Self:
        made = cls(fields["columns"], None, pictures=fields["pictures"])
        made.__dict__.update(fields)
        if not made.own:
            made.use(embedder_of_ours(made.name, download=False))
        return made


def _cache_folder(embedder: Any) -> Path | None:
    """Return where vectors are kept: in ``$ONEPOS_CACHE`` or the user's cache; None without a fingerprint."""
    fingerprint, chosen = getattr(embedder, "fingerprint", None), os.environ.get("ONEPOS_CACHE")
    home = Path(chosen).expanduser() if chosen else user_cache()
    return None if fingerprint is None else home / "embeddings" / _digest(_bytes(str(fingerprint))).hex()


def _read_cache(folder: Path | None, wanted: set[bytes]) -> Vectors:
    """Return the wanted vectors that are stored, by the hash of their text or file; a damaged file is skipped."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    vectors_by_key: Vectors = {}
    for path in sorted(folder.glob(WEIGHTS)) if folder is not None and wanted else ():
        try:
            stored = load_file(path)
            vectors = stored["vectors"].astype(np.float32)
            if np.isfinite(vectors).all():
                pairs = zip(map(bytes, stored["keys"]), vectors, strict=True)
                vectors_by_key |= {key: vector for key, vector in pairs if key in wanted}
        except (SafetensorError, OSError, KeyError, ValueError):
            continue  # its vectors are computed again
    return vectors_by_key


def _write_cache(folder: Path | None, vectors: Vectors) -> None:
    """Add a file with vectors; where the folder may not be written, or the disk is full, nothing is kept."""
    from safetensors.numpy import save

    if folder is None or not is_writable(folder):
        return
    keys = np.array([list(key) for key in vectors], dtype=np.uint8)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replaced_when_done(folder / f"{_digest(keys.tobytes()).hex()}.safetensors") as part:
            part.write_bytes(save({"keys": keys, "vectors": np.stack(list(vectors.values()))}))
        newest_first = sorted(folder.glob(WEIGHTS), key=lambda path: -path.stat().st_mtime)
        too_much = np.cumsum([path.stat().st_size for path in newest_first]) > _MOST_BYTES
        for path in compress(newest_first[1:], too_much[1:]):
            path.unlink(missing_ok=True)
    except OSError:
        return  # the vectors are in memory: only the next run is slower


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
