"""``folder/*`` in the navigation: all pages of a folder, so that a new page needs no line in mkdocs.yml."""

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Replace every ``folder/*`` by the folder's pages, its README or index first, the others by title."""
    config.nav = _expanded(config.nav, Path(config.docs_dir))
    return config


def _expanded(item: Any, docs: Path) -> Any:
    if isinstance(item, list):
        return [_expanded(part, docs) for part in item]
    if isinstance(item, dict):
        return {title: _expanded(part, docs) for title, part in item.items()}
    return _pages(docs / item.removesuffix("/*"), docs) if item.endswith("/*") else item


def _pages(folder: Path, docs: Path) -> list[dict[str, str]]:
    first = {"README.md", "index.md"}
    entries = [
        (path.name not in first, _title(path).casefold(), _title(path), path.relative_to(docs).as_posix())
        for path in folder.glob("*.md")
    ]
    return [{"Overview" if not later else title: place} for later, _, title, place in sorted(entries)]


def _title(path: Path) -> str:
    """Return the heading of a page without what it adds in brackets or behind a comma."""
    with path.open(encoding="utf-8") as lines:
        heading = next((line for line in lines if line.startswith("# ")), f"# {path.stem}")
    return heading.removeprefix("# ").partition(" (")[0].partition(": ")[0].replace("`", "").strip()
