"""Find wording that CONTRIBUTING's style guide replaces, and long sentences where they hurt most.

python tools/prose.py            check README, docs, docstrings, comments, help texts and page templates
python tools/prose.py FILE …     check these files
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("*.md", "docs/*.md", "docs/*/*.md", "src/onepos/pages/templates/*.j2", "src/onepos/pages/templates/*/*.j2")
CODE = ("src/**/*.py", "examples/*.py", "studies/**/*.py", "benchmarks/**/*.py", "tools/*.py")
#: Written by others, or a record of the past.
LEFT_OUT = ("CHANGELOG.md", "tools/prose.py")
MOST_WORDS = 35

_UNITS = "row|label|picture|epoch|batch|method|step|column|category|class|cell|item|example"
#: Words after which "a row" does not mean "per row".
_JOINING = re.compile(
    r"(?:of|for|in|to|with|is|as|if|that|per|from|by|on|than|and|or|not|has|have|into|at|about|but|before|after|when|where|while"
    r"|between|over|under|without|within|are|was|were|be|until|like|whole|(?:make|give|take|name|get)s?)",
    re.IGNORECASE,
)
#: Pattern → what to write instead.
PATTERNS = {
    re.compile(r"\bshall\b"): "must, will, or a plain present",
    re.compile(r"\b(?:is|are) said\b"): "say who says it, or state the fact",
    re.compile(r"\bto be had\b"): "available",
    re.compile(r"\bthat is what\b", re.IGNORECASE): "state the fact",
    re.compile(r"\b(?:soberly|mostly far)\b"): "a number",
    re.compile(r"\b(?:if|where) need be\b"): "if necessary, or if it does not exist",
}
_PER = re.compile(rf"\b(?:one|two|three|half|\d[\d.,]*)\s+(?:[\w'-]+\s+){{0,2}}?([\w'-]+)\s+an?\s+(?:{_UNITS})\b")
_STYLE_GUIDE = re.compile(r"^\| .* \| .* \|$", re.MULTILINE)


def pieces(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the prose of a file, each piece with the line that it starts on."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        if path.name == "CONTRIBUTING.md":  # its table quotes what not to write
            text = _STYLE_GUIDE.sub("", text)
        yield 1, re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def found(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, wording and advice for each hit."""
    for first, text in pieces(path):
        for pattern, advice in PATTERNS.items():
            for hit in pattern.finditer(text):
                yield first + text.count("\n", 0, hit.start()), hit[0], advice
        for hit in _PER.finditer(text):
            if not _JOINING.fullmatch(hit[1]):
                yield first + text.count("\n", 0, hit.start()), " ".join(hit[0].split()), "“per” instead of “a”"


def long_sentences(text: str) -> list[str]:
    """Return the sentences with more than 35 words.

    Examples
    --------
    >>> long_sentences("Short. " + "word " * 36 + "end.")[0].startswith("word word")
    True
    """
    plain = re.sub(r"\]\([^)]*\)|[`*|]", " ", text)
    sentences = re.split(r"(?<=[.!?:])\s+|\n\s*\n|\n(?=[-#|])", plain)
    return [" ".join(sentence.split()) for sentence in sentences if len(sentence.split()) > MOST_WORDS]


def helps(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the help texts of a module of the command line: docstrings of commands, and what options are given."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and (words := ast.get_docstring(node)):
            yield node.lineno, words
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")).lower() == "option":
            yield from (
                (part.lineno, part.value)
                for part in ast.walk(node)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            )


def main(arguments: list[str]) -> int:
    """Print every hit; 1 if there is one."""
    paths = [Path(name).resolve() for name in arguments] or sorted(
        {path for pattern in (*PAGES, *CODE) for path in ROOT.glob(pattern)}
    )
    hits = []
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        if name in LEFT_OUT:
            continue
        hits += [f"{name}:{line}: {words!r}: write {advice}" for line, words, advice in found(path)]
        if name == "README.md":
            text = re.sub(r"^```.*?^```|^\|.*?$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
            hits += [f"{name}: {len(one.split())} words: {one[:60]}…" for one in long_sentences(text)]
        elif name.startswith("src/onepos/cli/"):
            hits += [
                f"{name}:{line}: {len(one.split())} words: {one[:60]}…"
                for line, words in helps(path)
                for one in long_sentences(words)
            ]
    sys.stdout.write(("\n".join(dict.fromkeys(hits)) or "prose: nothing found") + "\n")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
