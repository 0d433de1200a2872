"""Where a command may write: not over what it reads, nor two things into one file."""

from pathlib import Path

from onepos.cli._output import InputError

_PAGES = (".html", ".htm")


def check_page(option: str, path: Path) -> None:
    """Raise before the work, not after it, if a page cannot be written to ``path``."""
    from onepos.columns.writing import check_place

    check_place(path)
    if path.suffix.lower() not in _PAGES:
        raise InputError(f"{option} writes a page, to a file that ends in .html; got {path.name!r}.")


def check_apart(read: dict[str, Path | None], written: dict[str, Path | None]) -> None:
    """Raise if a file to be written is one of those that are read, or is to be written twice.

    Parameters
    ----------
    read, written : dict from the option's name to a path, or None
    """
    seen = {path.resolve(): name for name, path in read.items() if path is not None}
    for option, path in written.items():
        if path is None:
            continue
        known = seen.setdefault(path.resolve(), option)
        if known != option:
            does = "is read as" if known in read else "is written as"
            raise InputError(f"{option} would replace {path}, which {does} {known}: name another file.")
