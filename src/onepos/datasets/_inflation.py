"""How much a compressed file may grow: a few kilobytes can unpack to more than the memory holds."""

#: Up to here a part may grow whatever its compressed size is.
_FREE = 1 << 28
#: Beyond, so many bytes for each compressed one. Real matrices reach this only if nearly all of them is zero.
_RATIO = 100


def largest_inflation(compressed: int) -> int:
    """Return to how many bytes a part of this compressed size may grow."""
    return max(_FREE, _RATIO * compressed)


def check_inflation(compressed: int, inflated: int) -> None:
    """Raise ValueError if a part would grow beyond what its compressed size makes plausible.

    Parameters
    ----------
    compressed, inflated : int
        Bytes, as the file announces them.
    """
    if inflated > largest_inflation(compressed):
        raise ValueError(
            f"{compressed} compressed bytes would become {inflated}, which looks like an attack; if the file is yours, "
            "save it without compression, or as a sparse matrix"
        )
