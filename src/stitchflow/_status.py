"""Readable outcomes: bad input, missing packages, how a fit ended, what a method cannot answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any


class BadInput(ValueError):
    """What was given cannot be used; the message is one sentence that names it and says why.

    NumPy and JAX raise `ValueError` in the middle of a fit too, where the input is not to blame.
    The command line answers this class with its sentence, and shows a traceback for any other.
    """


class BadInputType(BadInput, TypeError):
    """What was given is of a kind that cannot be used."""


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Errors of the library, with the file or option of the command line they come from."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{what}: {error}") from None


class NotAvailable(RuntimeError):
    """A method was asked something it cannot answer; says which method and why."""

    def __init__(self, method: str, call: str, reason: str):
        super().__init__(f"{method} cannot answer {call}: {reason}")
        self.method, self.call, self.reason = method, call, reason


class ExtrapolationWarning(UserWarning):
    """A time outside the observed range was asked for and is answered by simulation."""


class DataWarning(UserWarning):
    """Something about the data that a fit cannot mend, and what to do about it."""


@dataclass(frozen=True)
class Status:
    """How a fit ended, in words: `ok` is False when the numbers should not be trusted."""

    ok: bool
    message: str

    def __str__(self) -> str:
        return self.message


def require(package: str, extra: str = "anndata") -> Any:
    """An optional package, or an error that names the extra it comes with."""
    try:
        return import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise ImportError(f"this needs {name}; install stitchflow[{extra}]") from error
