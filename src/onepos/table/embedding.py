"""Texts and pictures of a table as features: vectors of an embedder, kept on disk for the next time."""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos._utils import storage
from onepos._utils.context import not_counted, tell
from onepos._utils.files import is_writable, replaced_when_done, user_cache
from onepos._utils.machine import require
from onepos.exceptions import DataFileError, MissingDependencyError
from onepos.table.embedders import (
    TIMM,
    WEIGHTS,
    BadPicture,
    FolderEmbedder,
    PictureEmbedder,
    SentenceEmbedder,
    open_picture,
)
from onepos.table.kinds import Tally, as_words

_PIECE, _FILE_ITEMS = 256, 4_096  # Items encoded at a time, and items in a file of the cache
_MOST_VECTORS, _MOST_BYTES = 100_000, 2 << 30  # Kept in memory; kept on disk per embedder, the newest files
_MOST_FILE_BYTES = 100 << 20

Vectors = dict[bytes, NDArray[np.float32]]


def for_pictures(embed: Any, *, text: str | Sequence[str]) -> bool:
    """Whether an embedder is for the pictures of a table with these text columns."""
    marked = embed.startswith(TIMM) if isinstance(embed, str) else bool(getattr(embed, "pictures", False))
    return marked or not text


def assign(embed: Any, *, text: Sequence[str], image: str | None) -> dict[bool, Any]:
    """Return, of one or two embedders, that of texts at False and that of pictures (see ``for_pictures``) at True."""
    embedders = list(embed) if isinstance(embed, list | tuple) else [] if embed is None else [embed]
    assigned: dict[bool, Any] = {}
    for one in embedders:
        pictures = for_pictures(one, text=text) if image is not None else str(one).startswith(TIMM)
        if not isinstance(one, str) and not callable(getattr(one, "encode", None)):
            raise ValueError(f"embed takes a name, a folder, or an object with encode(list); got {type(one).__name__}.")
        what, column = ("pictures", "image") if pictures else ("texts", "text")
        if pictures in assigned:
            raise ValueError(f"embed takes one embedder of texts and one of pictures; got two of {what}.")
        if (image is None) if pictures else not text:
            raise ValueError(f"embed gives an embedder of {what}, but no column is named as {column}. Name one.")
        assigned[pictures] = one
    if image is not None and True not in assigned:
        raise ValueError(
            f"the pictures of column {image!r} need an embedder of pictures: give embed={TIMM}NAME or {TIMM}FOLDER."
        )
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

    def __init__(self, columns: list[str], embed: Any, *, pictures: bool, folder: str | Path = "") -> None:
        self.columns, self.pictures, self.folder = columns, pictures, Path(folder)
        self.use(embed)

    name: str
    fingerprint: Any
    own: bool
    mean: NDArray[np.float32]
    factor: float

    def use(self, embed: Any) -> None:
        """Take an embedder, or the name of one, which is opened when it is needed."""
        made: Any = embed
        if isinstance(embed, str):
            made = (PictureEmbedder if self.pictures else SentenceEmbedder)(embed)
        self._embedder, self._checked = made, False
        self._known: Vectors = {}

    @not_counted()  # a time budget is for training
    def fit(self, frame: pd.DataFrame) -> Self:
        """Learn mean and length of the vectors of training rows."""
        self.name = str(getattr(self._embedder, "name", type(self._embedder).__name__))
        self.own = not isinstance(self._embedder, FolderEmbedder)
        self.fingerprint, self._checked = self._identity(), True
        vectors, present, _ = self._vectors(frame)
        if not present.any():
            what = "a picture that can be read" if self.pictures else "text"
            raise DataFileError(f"no row of column {self.columns[0]!r} has {what}. Check it, or leave it out.")
        self.mean = vectors[present].mean(axis=0)
        length = float(np.linalg.norm(vectors[present] - self.mean, axis=1).mean())
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
        vectors, present, reasons = self._vectors(frame)
        if self.pictures:
            column = self.columns[0]
            tally.count(column, (~present).sum() - len(reasons), "missing, taken as the mean picture")
            # Rows of a file are counted from 1 on, as in predictions.
            rows = [name + 1 if isinstance(name, int | np.integer) else repr(name) for name in frame.index]
            for j, why in sorted(reasons.items()):
                tally.broken.setdefault(column, []).append(f"row {rows[j]}: {why}")
        values = np.zeros((len(frame), self.n_features), dtype=np.float32)
        values[present] = (vectors[present] - self.mean) * np.float32(self.factor)
        return values

    def _check(self) -> None:
        """Raise DataFileError if this is not the embedder of the training."""
        if self._checked:
            return
        how = "Give the embedder of the training: --embed on the command line, embed= of TableModel.load."
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

    def _vectors(self, frame: pd.DataFrame) -> tuple[NDArray[np.float32], NDArray[np.bool_], dict[int, str]]:
        """Return one vector per row, whether the row has one, and of broken pictures the reason, by position."""
        reasons: dict[int, str] = {}
        if self.pictures:
            cells = [None if cell is None else self.folder / cell for cell in as_words(frame[self.columns[0]])]
            keys = [_content(cell, reasons, j) for j, cell in enumerate(cells)]
            load: Callable[[Any], Any] = open_picture
        else:
            words = zip(*(as_words(frame[name]) for name in self.columns), strict=True)
            cells = [". ".join(part for part in row if part is not None) or None for row in words]
            keys = [None if cell is None else _digest(cell.encode("utf-8", "surrogatepass")) for cell in cells]
            load = str
        broken = self._embed({key: cell for key, cell in zip(keys, cells, strict=True) if key is not None}, load)
        reasons |= {j: broken[key] for j, key in enumerate(keys) if key in broken}
        by_row = {j: self._known[key] for j, key in enumerate(keys) if key is not None and key not in broken}
        widths = {len(vector) for vector in by_row.values()} | ({self.n_features} if hasattr(self, "mean") else set())
        if len(widths) > 1:
            raise DataFileError(
                f"expected vectors of one length from the embedder {self.name!r}, in training and now; got lengths "
                f"{sorted(widths)}. Its fingerprint must change when its vectors do."
            )
        vectors = np.zeros((len(keys), max(widths, default=0)), dtype=np.float32)
        present = np.isin(np.arange(len(keys)), list(by_row))
        if by_row:
            vectors[present] = list(by_row.values())
        if len(self._known) > _MOST_VECTORS:
            self._known = {}
        return vectors, present, reasons

    def _embed(self, cells: dict[bytes, Any], load: Callable[[Any], Any]) -> dict[bytes, str]:
        """Make vectors known, from the cache or the embedder; returns what is broken, with the reason."""
        cache = cache_folder(self._embedder)
        self._known |= read_cache(cache, cells.keys() - self._known.keys())
        order = [key for key in cells if key not in self._known]
        if not self.pictures:
            order.sort(key=lambda key: -len(cells[key]))  # texts of one length together: less padding
        broken: dict[bytes, str] = {}
        fresh: Vectors = {}
        for start in range(0, len(order), _PIECE):
            tell(start / len(order), "embedding")
            items = {}
            for key in order[start : start + _PIECE]:
                try:
                    items[key] = load(cells[key])
                except BadPicture as error:
                    broken[key] = str(error)
            if items:
                fresh |= zip(items, self._encode(list(items.values())), strict=True)
            if len(fresh) >= _FILE_ITEMS or start + _PIECE >= len(order):
                write_cache(cache, fresh)
                self._known |= fresh
                fresh = {}
        return broken

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
        name = None if fields["own"] else fields["name"]
        made = cls(fields["columns"], name, pictures=fields["pictures"])
        if name is not None:
            made._embedder.download = False
        made.__dict__.update(fields)
        return made


def cache_folder(embedder: Any) -> Path | None:
    """Return where vectors are kept: in ``$ONEPOS_CACHE`` or the user's cache; None without a fingerprint."""
    fingerprint, chosen = getattr(embedder, "fingerprint", None), os.environ.get("ONEPOS_CACHE")
    home = Path(chosen).expanduser() if chosen else user_cache()
    return None if fingerprint is None else home / "embeddings" / _digest(str(fingerprint).encode()).hex()


def read_cache(folder: Path | None, wanted: set[bytes]) -> Vectors:
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


def write_cache(folder: Path | None, vectors: Vectors) -> None:
    """Add a file with vectors; where the folder may not be written, or the disk is full, nothing is kept."""
    from safetensors.numpy import save

    if not vectors or folder is None or not is_writable(folder):
        return
    keys = np.array([list(key) for key in vectors], dtype=np.uint8)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replaced_when_done(folder / f"{_digest(keys.tobytes()).hex()}.safetensors") as part:
            part.write_bytes(save({"keys": keys, "vectors": np.stack(list(vectors.values()))}))
        files = sorted(folder.glob(WEIGHTS), key=lambda path: path.stat().st_mtime)
        sizes = [path.stat().st_size for path in files]
        # Each file goes if it and all newer ones are too much; the newest one stays.
        for path, total in zip(files[:-1], np.cumsum(sizes[::-1])[:0:-1], strict=True):
            if total > _MOST_BYTES:
                path.unlink(missing_ok=True)
    except OSError:
        return  # the vectors are in memory: only the next run is slower


def _content(path: Path | None, reasons: dict[int, str], row: int) -> bytes | None:
    """Return a hash of a file; None, and a reason, if it cannot be read."""
    if path is None:
        return None
    try:
        if not path.is_file():
            reasons[row] = f"there is no file {path.name!r}"
        elif path.stat().st_size > _MOST_FILE_BYTES:
            reasons[row] = f"{path.name!r} has more than {_MOST_FILE_BYTES >> 20} MB"
        else:
            return _digest(path.read_bytes())
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        reasons[row] = f"{path.name!r} cannot be read ({error})"
    return None


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
