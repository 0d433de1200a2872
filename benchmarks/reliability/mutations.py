"""Damage to the bytes of a file: what a bad disk, a broken download, a careless editor or an attacker leaves behind."""

import random
import re
from collections.abc import Callable, Sequence

#: Numbers at which a parser's arithmetic may break, as text and as bytes.
_ABSURD_TEXT = (
    b"0 -0 -1 1e999 -1e999 1e308 5e-324 nan inf -inf 99999999999999999999 2147483648 4294967296 9223372036854775808 "
    b"-9223372036854775809 18446744073709551616 1e30 0x10 1_000 1. .5 +1 \xd9\xa3 1e-400 1000000000000"
).split()
_ABSURD_WORDS = (
    *_ABSURD_TEXT,
    *b"null true false None [] {} [[]]".split(),
    *b"\"\" '' ? NA % # @data , ; : = \\ \\\\ \\u0000 {0 } ] [ ( \" ' ../../etc/passwd".split(),
    b"",
    b"\0",
    b"\r",
    b"\n\n",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"A" * 5000,
    b"9" * 5000,
    b"[" * 3000,
    b"{" * 3000,
    b"a=" + b"{x=" * 600,
    b"%s%n{0.__class__}${x}",
)
_ABSURD_BYTES = tuple(
    value.to_bytes(width, order)
    for width in (1, 2, 4, 8)
    for value in (0, 1, 2 ** (8 * width - 1) - 1, 2 ** (8 * width - 1), 2 ** (8 * width) - 1)
    for order in ("little", "big")
)
_TOKEN = re.compile(rb"[^\s,:;={}\[\]()\"'<>]+|[,:;={}\[\]()\"'<>]")


def mutate(content: bytes, rng: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """Return the content with one to four kinds of damage.

    Parameters
    ----------
    content : bytes
        A valid file.
    rng : random.Random
        Decides everything: the same state, the same damage.
    others : sequence of bytes
        Other files, of which parts may be spliced in.
    """
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        content = rng.choice(_KINDS)(content, rng, others)
    return content


def _flip(content: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8)) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(content: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    value = rng.choice(_ABSURD_BYTES)
    at = rng.randrange(max(1, len(content)))
    return content[:at] + value + content[at + len(value) :]


def _delete(content: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    first, last = _stretch(content, rng)
    return content[:first] + content[last:]


def _duplicate(content: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    first, last = _stretch(content, rng)
    return content[:last] + content[first:last] * rng.choice((1, 1, 2, 50)) + content[last:]


def _splice(content: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others) if others else content
    first, last = _stretch(other, rng)
    at = rng.randrange(len(content) + 1)
    return content[:at] + other[first:last] + content[at + rng.choice((0, last - first)) :]


def _truncate(content: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _word(content: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    """Put something absurd in the place of a word, a number or a sign."""
    tokens = [found.span() for found in _TOKEN.finditer(content)]
    first, last = rng.choice(tokens) if tokens else (0, 0)
    return content[:first] + rng.choice(_ABSURD_WORDS) + content[last:]


def _swap_words(content: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    """Put a word of the file in the place of another one."""
    tokens = [found.span() for found in _TOKEN.finditer(content)]
    if not tokens:
        return content
    (first, last), (start, end) = rng.choice(tokens), rng.choice(tokens)
    return content[:first] + content[start:end] + content[last:]


def _swap_lines(content: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    lines = content.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


def _stretch(content: bytes, rng: random.Random) -> tuple[int, int]:
    first = rng.randrange(len(content) + 1)
    return first, min(len(content), first + rng.choice((1, 2, 4, 8, 40, 400)))


_KINDS: tuple[Callable[[bytes, random.Random, Sequence[bytes]], bytes], ...] = (
    _flip,
    _overwrite,
    _delete,
    _duplicate,
    _splice,
    _truncate,
    _word,
    _word,
    _swap_words,
    _swap_lines,
)
