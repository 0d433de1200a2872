"""Grey pictures as PNG data addresses, so that the report holds them itself."""

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray


def png_address(image: NDArray[np.floating]) -> str:
    """Return a picture with values from 0 (white) to 1 (black) as ``data:image/png;base64,…``.

    Written here because eight-bit grey needs three chunks, and no image library then becomes a dependency.

    Parameters
    ----------
    image : array of shape (height, width)
    """
    height, width = image.shape
    grey = np.round(255 * (1 - np.clip(image, 0, 1))).astype(np.uint8)
    # Each line starts with its filter type; 0 leaves the values as they are.
    lines = np.column_stack([np.zeros(height, dtype=np.uint8), grey])
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, content)
        for kind, content in ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    )
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
