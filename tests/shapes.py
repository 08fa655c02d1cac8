"""The run-time type check of the tests: array annotations only.

Bad values of plain types are the constructors' own business, and their messages are tested.
"""

from beartype import beartype

ARRAYS = ("Float[", "Int[", "Scalar")


def arrays_only(function):
    """`beartype` on the annotations that speak of arrays."""
    notes = getattr(function, "__annotations__", {})
    function.__annotations__ = {
        name: note for name, note in notes.items() if any(word in str(note) for word in ARRAYS)
    }
    return beartype(function)
