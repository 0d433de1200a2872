"""All pages as one text, ``llms.txt``, for programs that read documentation, without gallery and API."""

from pathlib import Path
from typing import Any

_LEFT_OUT = ("gallery/", "api/", "repository/")


def on_post_build(config: Any) -> None:
    """Write the pages in the order of their names, the home page first."""
    folder = Path(config.docs_dir)
    pages = sorted(
        folder.rglob("*.md"), key=lambda page: (page.name != "index.md", page.relative_to(folder).as_posix())
    )
    names = [page.relative_to(folder).as_posix() for page in pages]
    texts = [(folder / name).read_text(encoding="utf-8") for name in names if not name.startswith(_LEFT_OUT)]
    (Path(config.site_dir) / "llms.txt").write_text("\n\n".join(texts), encoding="utf-8")
