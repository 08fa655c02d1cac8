"""Readable outcomes: how a fit ended, and what a method cannot answer."""

from __future__ import annotations

from dataclasses import dataclass


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
