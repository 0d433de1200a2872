"""Links that leave ``docs/``: on GitHub they open a file of the repository, on the site its copy in ``repository/``."""

import re
from os.path import normpath, relpath
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, InclusionLevel

_FOLDER = "repository"
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
# What stands in a block of code is no link.
_CODE = re.compile(r"^(?:```.*?^```|(?: {4}|\t).*?$)", re.MULTILINE | re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """Add each file outside that a page links, and what those link in turn."""
    root, docs = Path(config.docs_dir).parent, Path(config.docs_dir).name
    waiting = [f"{docs}/{file.src_uri}" for file in files.documentation_pages()]
    while waiting:
        place = waiting.pop()
        for target in sorted(_targets(place, _content(root, place)) - _inside(docs, root)):
            uri = _uri(target, docs)
            if (root / target).is_file() and files.get_file_from_path(uri) is None:
                copy = File.generated(config, uri, content=_content(root, target), inclusion=InclusionLevel.NOT_IN_NAV)
                files.append(copy)
                waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn links of the repository's layout into links of the site's."""
    root, docs = Path(config.docs_dir).parent, Path(config.docs_dir).name
    here = page.file.src_uri
    place = _place(here, docs)

    def moved(link: re.Match[str]) -> str:
        target = _resolve(place, link[2])
        if target is None or not (root / target).exists():
            return link[0]  # an address elsewhere, or a mistake, which the build reports
        uri = relpath(_uri(target, docs), Path(here).parent).replace("\\", "/")
        return f"{link[1]}{uri}{link[3] or ''}{link[4]}"

    parts, end = [], 0
    for code in _CODE.finditer(markdown):
        parts += [_LINK.sub(moved, markdown[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, _LINK.sub(moved, markdown[end:])])


def _targets(place: str, text: str) -> set[str]:
    links = _LINK.findall(_CODE.sub("", text))
    return {target for link in links if (target := _resolve(place, link[1])) is not None}


def _resolve(place: str, link: str) -> str | None:
    """Return what a link in the file at this place means, from the root of the repository."""
    if re.match(r"[a-z]+:", link):
        return None
    return normpath(Path(place).parent / link).replace("\\", "/")


def _inside(docs: str, root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in (root / docs).rglob("*")}


def _uri(target: str, docs: str) -> str:
    """Return where the site has a file of the repository; source code becomes a page."""
    if target.startswith(f"{docs}/"):
        return target.removeprefix(f"{docs}/")
    return f"{_FOLDER}/{target}" + (".md" if target.endswith(".py") else "")


def _place(uri: str, docs: str) -> str:
    """Return where the repository has a page of the site."""
    if uri.startswith(f"{_FOLDER}/"):
        return uri.removeprefix(f"{_FOLDER}/").replace(".py.md", ".py")
    return f"{docs}/{uri}"


def _content(root: Path, place: str) -> str:
    text = (root / place).read_text(encoding="utf-8")
    return f"# `{place}`\n\n```python\n{text}```\n" if place.endswith(".py") else text
