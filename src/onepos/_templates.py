"""Templates of the self-contained pages, set up in one way: what is not said to be safe is escaped."""

from typing import Any, NamedTuple

from onepos._optional import require


class Templates(NamedTuple):
    """A package's templates, and the type that marks text as markup."""

    environment: Any
    safe: Any


def load_templates(package: str, purpose: str) -> Templates:
    """Open the templates of a package; ``purpose`` begins the message if jinja2 is not installed."""
    jinja2 = require("jinja2", extra="plot", purpose=purpose)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return Templates(environment, require("markupsafe", extra="plot", purpose=purpose).Markup)
