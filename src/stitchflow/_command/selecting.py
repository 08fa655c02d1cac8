"""Which terms a data file supports, for `stitchflow select` and `stitchflow fit --select`."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from stitchflow._judging.selection import Selection
from stitchflow._method.contract import Method
from stitchflow._status import BadInput
from stitchflow._weak_form.method import WeakForm

# Settings of the energy's terms, which would be lost with the terms they belong to.
OF_TERMS = ("beta", "hidden", "conditions", "field", "growth", "radial")


def check_selecting(method: Method, terms: dict[str, bool], settings: dict[str, Any]) -> None:
    """Refuse `fit --select` for a method without an energy to choose, or with terms by hand.

    Arguments:
        method: the method.
        terms: the options that choose terms, and whether they were given.
        settings: what `--set` sets.
    """
    given = [f"--{name.replace('_', '-')}" for name, there in terms.items() if there]
    given += [f"--set {name}" for name in settings if name in OF_TERMS]
    if given:
        raise BadInput(f"--select chooses the terms: leave out {', '.join(given)}")
    if type(method).learning is Method.learning:
        raise BadInput(f"--select: {method.name} has no energy to choose")


def method_for(method: Method, found: Selection) -> Method:
    """The method, set to learn what is supported."""
    method = method.learning(found.energy)
    if found.growth is None:
        return method
    if not hasattr(method, "growth"):
        raise BadInput(f"--select: growth is supported, and {method.name} does not learn it")
    return replace(method, growth=method.growth or found.growth)  # pyright: ignore


def selected_rows(found: Selection, seed: int, seconds: float) -> list[dict[str, Any]]:
    """The verdicts as the lines of a results file."""
    from stitchflow import __version__

    rows = []
    for row in found:
        more = asdict(row)
        term, gain = more.pop("term"), more.pop("gain")
        about = {"task": None, "method": WeakForm.name, "seed": seed, "protocol": "select"}
        rows.append(
            about
            | {"metric": term, "time": None, "value": gain, "floor": None, **more}
            | {"seconds_train": seconds, "seconds_total": seconds, "steps": 0}
            | {"version": __version__}
        )
    return rows
