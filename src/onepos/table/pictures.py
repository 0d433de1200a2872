"""Picture files: which ones are read, and how."""

import hashlib
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from onepos._utils.machine import require

_MOST_FILE_BYTES = 100 << 20  # of a picture
_LONGEST_SIDE = 1_024  # Pixels to which the longer side is reduced
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")  # Their readers are part of Pillow and start no other program
#: Bytes that decoding takes at most, and those per pixel: of a JPEG, which is reduced while it is read, and of others.
_MOST_BYTES = 240_000_000
_BYTES, _BASELINE, _PROGRESSIVE, _WEBP = 10, 2, 6, 16
_ALONE_FROM = 30_000_000  # Bytes from which on one thread at a time decodes
_one_large_picture = threading.Lock()


class BadPicture(Exception):
    """Why a picture cannot be used."""


def check_picture(path: Path, folder: Path) -> None:
    """Raise BadPicture unless there is a file of acceptable size in the folder."""
    try:
        if not path.is_file():
            raise BadPicture(f"there is no file {path.name!r}")
        if not path.resolve().is_relative_to(folder.resolve()):
            raise BadPicture(f"{path.name!r} is outside of the folder of pictures, {str(folder.resolve())!r}")
        size = path.stat().st_size
    except (OSError, ValueError, RuntimeError) as error:  # a null byte is a ValueError, a ring of links a RuntimeError
        raise BadPicture(f"{path.name!r} cannot be read ({error})") from error
    if not size:  # files of the kernel say so, too, and reading one may never end
        raise BadPicture(f"{path.name!r} is empty")
    if size > _MOST_FILE_BYTES:
        raise BadPicture(f"{path.name!r} has more than {_MOST_FILE_BYTES >> 20} MB")


def digest_of_picture(path: Path, folder: Path) -> bytes:
    """Return the hash of the content of a file, by which pictures are recognised."""
    check_picture(path, folder)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()
    except OSError as error:
        raise BadPicture(f"{path.name!r} cannot be read ({error})") from error


def open_picture(path: Path) -> Any:
    """Return a picture in RGB as a person sees it, its longer side at most 1,024 pixels."""
    image: Any = require("PIL.Image", extra="images", purpose="reading pictures")
    try:
        with image.open(path, formats=_FORMATS) as picture:
            size = (_LONGEST_SIDE, _LONGEST_SIDE)
            with _one_large_picture if _bytes_to_decode(picture) > _ALONE_FROM else nullcontext():
                picture.draft("RGB", size)
                picture.seek(0)
                return _as_seen(picture, size)
    except BadPicture:
        raise
    except Exception as error:  # readers of damaged files raise whatever their parts raise
        reason = " ".join(str(error).replace(str(path), path.name).split())
        raise BadPicture(f"is no readable picture ({reason[:80]})") from error


def _bytes_to_decode(picture: Any) -> int:
    """Return about how much memory decoding takes; raise BadPicture if it is too much."""
    per_pixel = _WEBP if picture.format == "WEBP" else _BYTES
    if picture.format == "JPEG":
        per_pixel = _PROGRESSIVE if picture.info.get("progressive") else _BASELINE
    width, height = picture.size
    if width * height * per_pixel > _MOST_BYTES:
        most = _MOST_BYTES // per_pixel
        raise BadPicture(f"has {width:,} × {height:,} pixels, more than the {most:,} that are read of such a file")
    return int(width * height * per_pixel)


def _as_seen(picture: Any, size: tuple[int, int]) -> Any:
    """Return it small, turned as its EXIF data say, in RGB: many shades become 256, what is transparent white."""
    from PIL import Image, ImageOps

    if picture.mode[0] in "IF":  # more than 8 bits per shade
        shades = np.asarray(picture)
        step = max(1, max(shades.shape) // _LONGEST_SIDE)
        shades = shades[::step, ::step].astype(np.float32)
        low, high = (0, 65_535) if picture.mode.startswith("I;16") else (shades.min(), shades.max())
        scaled = (shades - low) * (255.0 / max(high - low, 1e-30))
        small = Image.fromarray(np.nan_to_num(scaled).clip(0, 255).astype(np.uint8))
    elif picture.mode in ("P", "PA", "1"):
        small = picture.convert("RGBA")
    else:
        small = picture.copy() if max(picture.size) <= _LONGEST_SIDE else picture
    orientation = picture.getexif().get(0x0112)
    small.thumbnail(size)
    if orientation is not None:
        small.getexif()[0x0112] = orientation
        small = ImageOps.exif_transpose(small)
    if "transparency" in small.info and small.mode != "RGBA":
        small = small.convert("RGBA")
    if small.mode in ("RGBA", "LA", "La", "RGBa"):
        small = small.convert("RGBA")
        small = Image.alpha_composite(Image.new("RGBA", small.size, "white"), small)
    return small.convert("RGB")
