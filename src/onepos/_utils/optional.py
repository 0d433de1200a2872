"""The one place where optional dependencies are imported."""

from importlib import import_module
from types import ModuleType

from onepos.exceptions import MissingDependencyError


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import ``module``, or say which extra brings it.

    Parameters
    ----------
    module : str
        Dotted module name, for example ``"matplotlib.pyplot"``.
    extra : str
        The extra of onepos that installs it.
    purpose : str
        What needs it, as the start of the message: "drawing plots", "reading parquet".
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingDependencyError(
            f'{purpose} needs {package}, which is not installed: pip install "onepos[{extra}]"'
        ) from error
