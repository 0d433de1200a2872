"""Embedders: what turns texts or pictures into vectors. One protocol, and sentence-transformers and timm behind it."""

import hashlib
import json
import os
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from onepos._utils.context import other_warnings
from onepos._utils.files import sha256_of
from onepos._utils.machine import require
from onepos.exceptions import DataFileError, MissingDependencyError

TIMM = "timm:"  # Before the name of an embedder of pictures
WEIGHTS = "*.safetensors"
#: Files beside the weights that decide what an embedder computes, and folders that hold the weights again.
_ABOUT = frozenset({"config.json", "modules.json", "sentence_bert_config.json", "tokenizer.json"})
_OTHER_FORMATS = ("onnx/", "openvino/")
_MOST_FILE_BYTES = 100 << 20  # of a picture
_MOST_PIXELS, _LONGEST_SIDE = 50_000_000, 1_024  # Largest picture read, and the longer side that it is reduced to
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")  # Their readers are part of Pillow and start no other program


class Embedder(Protocol):
    """Anything that turns a list of texts, or of pictures (PIL images), into an array with one row per item.

    Optional attributes: ``name`` for messages; ``fingerprint``, a string that changes when the vectors change. With a
    fingerprint the vectors are cached on disk. Without one, a stored model recognises the embedder by the vector of a
    sample. ``pictures = True`` marks an embedder of pictures; it is needed only beside text columns.
    """

    def encode(self, items: list[Any], /) -> Any:
        """Return an array of shape (n_items, n_features)."""


class FolderEmbedder:
    """An embedder whose weights are files of a folder, or of a repository on huggingface.co, called ``name``."""

    extra, purpose = "", ""
    #: A name from a model file is looked up on this machine only: opening a file must not load what it names.
    download = True

    def __init__(self, name: str, *, device: str | None = None, batch_size: int = 32) -> None:
        self.name, self.device, self.batch_size = name, device, batch_size

    @cached_property
    def folder(self) -> Path:
        """Where the files are. They are downloaded if they are not on this machine."""
        folder = Path(os.path.expanduser(self.name.removeprefix(TIMM)))  # noqa: PTH111 - an unknown user stays
        if not folder.is_dir():
            return self._downloaded()
        if not list(folder.glob(WEIGHTS)):
            raise DataFileError(
                f"expected weights (model.safetensors) in the folder {str(folder)!r}; there are none. Name the folder "
                "that the model was saved to."
            )
        return folder

    def _downloaded(self) -> Path:
        hub: Any = require("huggingface_hub", extra=self.extra, purpose=self.purpose)
        ignored = [f"{folder}*" for folder in _OTHER_FORMATS]
        wanted = {"allow_patterns": ["*.json", "*.txt", "*.model", WEIGHTS], "ignore_patterns": ignored}
        repository = self._repository()
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

    def _repository(self) -> str:
        raise NotImplementedError

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights and settings; the place of the folder does not matter."""
        state = hashlib.blake2b(digest_size=16)
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder).as_posix()
            if (path.name in _ABOUT or path.match(WEIGHTS)) and not name.startswith(_OTHER_FORMATS):
                state.update(f"{name} {sha256_of(path)}\n".encode())
        return state.hexdigest()


class SentenceEmbedder(FolderEmbedder):
    """Any model of sentence-transformers; parameters as for ``FolderEmbedder``."""

    extra, purpose = "embed", "embedding text"

    def _repository(self) -> str:
        return self.name if "/" in self.name else f"sentence-transformers/{self.name}"

    @cached_property
    def _network(self) -> Any:
        made: Any = require("sentence_transformers", extra=self.extra, purpose=self.purpose)
        transformers: Any = require("transformers", extra=self.extra, purpose=self.purpose)
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
                "the model yourself, and pass it as embed."
            )

    def encode(self, items: list[str], /) -> NDArray[np.float32]:
        """Return one vector per text."""
        return np.asarray(self._network.encode(items, batch_size=self.batch_size, show_progress_bar=False))


class PictureEmbedder(FolderEmbedder):
    """Any model of timm without its last layer; a folder is one that ``timm.models.save_for_hf`` wrote."""

    extra, purpose = "images", "embedding pictures"
    pictures = True

    @cached_property
    def _timm(self) -> Any:
        try:
            return require("timm", extra=self.extra, purpose=self.purpose)
        except RuntimeError as error:  # torchvision of another build than torch
            raise MissingDependencyError(
                f"{self.purpose} needs timm, which cannot be imported ({error}): install the torchvision that belongs "
                "to the installed build of torch."
            ) from error

    def _repository(self) -> str:
        name = self.name.removeprefix(TIMM)
        return name if "/" in name else str(self._timm.get_pretrained_cfg(name).hf_hub_id)

    @cached_property
    def _network(self) -> tuple[Any, Any, str]:
        import torch

        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        made = self._timm.create_model(f"local-dir:{self.folder}", pretrained=True, num_classes=0).eval().to(device)
        settings = self._timm.data.resolve_model_data_config(made)
        return made, self._timm.data.create_transform(**settings, is_training=False), device

    def encode(self, items: list[Any], /) -> NDArray[np.float32]:
        """Return one vector per PIL image."""
        import torch

        network, prepare, device = self._network
        parts = []
        with torch.inference_mode():
            for start in range(0, len(items), self.batch_size):
                batch = torch.stack([prepare(item) for item in items[start : start + self.batch_size]])
                parts.append(network(batch.to(device)).float().cpu().numpy())
        return np.concatenate(parts)


class BadPicture(Exception):
    """Why a picture cannot be used."""


def read_picture(path: Path) -> bytes:
    """Return the content of a file, by which pictures are recognised."""
    try:
        if not path.is_file():
            raise BadPicture(f"there is no file {path.name!r}")
        if not path.stat().st_size:  # files of the kernel say so, too, and reading one may never end
            raise BadPicture(f"{path.name!r} is empty")
        if path.stat().st_size > _MOST_FILE_BYTES:
            raise BadPicture(f"{path.name!r} has more than {_MOST_FILE_BYTES >> 20} MB")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise BadPicture(f"{path.name!r} cannot be read ({error})") from error


def open_picture(path: Path) -> Any:
    """Return a picture in RGB, its longer side at most 1,024 pixels."""
    image: Any = require("PIL.Image", extra="images", purpose="reading pictures")
    try:
        with other_warnings("ignore"), image.open(path, formats=_FORMATS) as picture:
            width, height = picture.size
            if width * height > _MOST_PIXELS:
                raise BadPicture(f"has {width:,} × {height:,} pixels, more than {_MOST_PIXELS:,}")
            picture.draft("RGB", (_LONGEST_SIDE, _LONGEST_SIDE))
            made = picture.convert("RGB")
        made.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
    except BadPicture:
        raise
    except Exception as error:  # readers of damaged files raise whatever their parts raise
        reason = " ".join(str(error).replace(str(path), path.name).split())
        raise BadPicture(f"is no readable picture ({reason[:80]})") from error
    return made
