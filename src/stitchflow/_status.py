"""Readable outcomes: how a fit ended, and what a method cannot answer."""

from __future__ import annotations

from dataclasses import dataclass
from opcode import opmap
from pathlib import Path

PACKAGE = Path(__file__).parent


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


def in_own_words(error: Exception) -> bool:
    """Whether a `raise` of this package made it, as it does of bad input.

    NumPy and JAX raise the same types in the middle of a fit, where the input is not to blame.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    code = last.tb_frame.f_code
    raised = code.co_code[last.tb_lasti] == opmap["RAISE_VARARGS"]
    return raised and Path(code.co_filename).is_relative_to(PACKAGE)
