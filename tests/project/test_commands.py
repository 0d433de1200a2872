"""Every command on every page can be pasted: no prompt, no prose on the line, options that the commands have."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from onepos.cli import commands

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: A fenced block that shows commands or their output, and an indented one.
BLOCK = re.compile(r"^```(?:console|bash|sh|text)?\n(.*?)^```|((?:^ {4}\S.*\n)+)", re.MULTILINE | re.DOTALL)
LAUNCHER = re.compile(r"^(?:\S+=\S+ )*(?:torchrun (?:--\S+ (?!-m)\S+ )*(?:--\S+ )*-m )?onepos ")


def commands_of(page):
    """Return the commands of a page, whole, without the names of environment variables and launchers."""
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        for line in (block[1] or block[2]).replace("\\\n", " ").splitlines():
            # A sentence of a list, which is indented too, ends with a full stop.
            if LAUNCHER.match(line.strip().removeprefix("$ ")) and not line.endswith("."):
                yield line.strip()


FOUND = [(page, line) for page in PAGES for line in commands_of(page)]


def parse(words):
    """Parse the words after ``onepos`` as the command line would, and run nothing."""
    command, name = get_command(commands()), "onepos"
    while hasattr(command, "commands"):
        name, *words = words
        assert name in command.commands, f"there is no command {name!r}"
        command = command.commands[name]
    command.make_context(name, list(words))


def test_there_are_commands():
    assert len(FOUND) > 40
    assert len({page for page, _ in FOUND}) > 10


@pytest.mark.parametrize("page", sorted({page for page, _ in FOUND}), ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_can_be_pasted(page):
    for line in (line for where, line in FOUND if where == page):
        assert not line.startswith("$ "), f"the copy button copies the prompt: {line}"
        words = shlex.split(LAUNCHER.sub("", line))
        # A shell understands these; the command does not see them.
        words = words[: min([words.index(sign) for sign in (">", "|", "&", "&&") if sign in words] or [len(words)])]
        if words[-1:] == ["--help"] or words == ["--version"]:
            continue
        try:
            parse(words)
        except Exception as error:
            message = error.format_message() if hasattr(error, "format_message") else str(error)
            raise AssertionError(f"{line}\n{message}") from error
