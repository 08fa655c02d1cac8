"""Errors, warnings and the status of a fit, each with a readable message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any


class BadInput(ValueError):
    """An argument or a file cannot be used; the message names it and gives the reason.

    NumPy and JAX also raise `ValueError` in the middle of a fit, for reasons other than the input.
    The command line prints the message of this class, and a traceback for any other error.
    """


class BadInputType(BadInput, TypeError):
    """An argument is of a type that cannot be used."""


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Put `what`, a file or an option of the command line, in front of messages of `BadInput`."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{what}: {error}") from None


class NotAvailable(RuntimeError):
    """A method was asked for a quantity that it does not have.

    Arguments:
        method: the name of the method.
        call: what was asked for, such as `log_density`.
        reason: why the method does not have it.

    >>> raise sf.NotAvailable("nearest", "log_density", "it has no density")
    Traceback (most recent call last):
    stitchflow._status.NotAvailable: nearest cannot answer log_density: it has no density
    """

    def __init__(self, method: str, call: str, reason: str):
        super().__init__(f"{method} cannot answer {call}: {reason}")
        self.method, self.call, self.reason = method, call, reason


class DataWarning(UserWarning):
    """A property of the data that a fit cannot correct, with advice."""


class ExtrapolationWarning(DataWarning):
    """A time outside the observed range was requested; it is simulated with the energy."""


@dataclass(frozen=True)
class Status:
    """How a fit ended.

    Arguments:
        ok: False where the numbers should not be trusted.
        message: the reason in words, which is also what `str` returns.

    >>> str(Status(True, "2000 steps"))
    '2000 steps'
    """

    ok: bool
    message: str

    def __str__(self) -> str:
        return self.message


def require(package: str, extra: str = "anndata") -> Any:
    """The optional `package`, imported, or an `ImportError` that names the `extra` to install."""
    try:
        return import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise ImportError(f"this needs {name}; install stitchflow[{extra}]") from error
