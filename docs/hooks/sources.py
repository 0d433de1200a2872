"""What the sources say in ways that the documentation tool does not read.

``#:`` above a constant, Sphinx roles, and a function that a package exports from a module of the same name.
"""

import re
from typing import Any

from griffe import Alias, Docstring, Extension

_ROLE = re.compile(r":(?:func|class|data|meth|mod|attr):`~?([^`]+)`")


class Sources(Extension):
    """Take ``#:`` lines for docstrings, roles such as ``:func:`` for code, exported names for what Python gives."""

    def on_attribute_instance(self, *, attr: Any, **others: Any) -> None:
        """Give a constant the comment above it."""
        if attr.docstring is None and (text := comment_above(attr)):
            attr.docstring = Docstring(text, parent=attr)

    def on_instance(self, *, obj: Any, **others: Any) -> None:
        """Write the roles of a docstring as code."""
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(r"`\1`", obj.docstring.value)

    def on_package(self, *, pkg: Any, **others: Any) -> None:
        """Let ``package.name`` be the function ``package.name.name`` where the package exports that."""
        for package in [module for module in pkg.modules.values() if module.exports]:
            for name in package.exports:
                module = package.members.get(name)
                if module is not None and not module.is_alias and module.is_module and name in module.members:
                    package.set_member(name, Alias(name, module.members[name], parent=package))


def comment_above(attribute: Any) -> str:
    """Return the ``#:`` lines right above an assignment as one text."""
    if not attribute.lineno or attribute.is_alias:
        return ""
    lines = attribute.lines_collection[attribute.filepath]
    found: list[str] = []
    for number in range(attribute.lineno - 2, -1, -1):
        line = lines[number].strip()
        if not line.startswith("#:"):
            break
        found.insert(0, line.removeprefix("#:").strip())
    return " ".join(found)
