"""Every public class and function says what it is and what each of its arguments does."""

import inspect
import re

import pytest

import stitchflow as sf
from pages import public_names

MODULES = (sf, sf.datasets, sf.pl, sf.report, sf.tl, sf.tracking)


def documented() -> dict[str, object]:
    """Public classes, their public methods, and public functions, by dotted name."""
    found: dict[str, object] = {}
    for module in MODULES:
        for name in public_names(module):
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found[f"{module.__name__}.{name}"] = thing
    for name, thing in vars(sf.metrics).items():
        if inspect.isfunction(thing) and name[0] != "_":
            found[f"stitchflow.metrics.{name}"] = thing
    return found


def arguments(thing: object) -> list[str]:
    """The names of what a caller may hand over."""
    try:
        parameters = inspect.signature(thing).parameters  # type: ignore[arg-type]
    except ValueError:
        return []
    return [name for name in parameters if name not in ("self", "args", "kwargs")]


@pytest.mark.parametrize("name", sorted(documented()))
def test_every_argument_is_explained(name):
    thing = documented()[name]
    text = inspect.getdoc(thing) or ""
    assert text, f"{name} has no docstring"
    if inspect.isclass(thing) and issubclass(thing, (Warning, Exception)):
        return
    said = {arg for arg in arguments(thing) if re.search(rf"\b{arg}\b", text)}
    missing = [arg for arg in arguments(thing) if arg not in said]
    assert not missing, f"{name} does not explain {', '.join(missing)}"
