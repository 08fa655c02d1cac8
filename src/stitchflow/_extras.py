"""Packages that come with an extra."""

from importlib import import_module
from typing import Any


def require(package: str, extra: str = "anndata") -> Any:
    """An optional package, or an error that names the extra it comes with."""
    try:
        return import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise ImportError(f"this needs {name}; install stitchflow[{extra}]") from error
