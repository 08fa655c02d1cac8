"""Every public class and function says what it is and what each of its arguments does."""

import inspect
import re

import pytest

import stitchflow as sf

MODULES = (sf, sf.datasets, sf.metrics, sf.pl, sf.report, sf.tl, sf.tracking)


def documented() -> dict[str, object]:
    """Public classes, their public methods, and public functions, by dotted name."""
    found: dict[str, object] = {}
    for module in MODULES:
        own = [
            n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
        ]
        for name in getattr(module, "__all__", own):
            thing = getattr(module, name)
            public = inspect.isclass(thing) or inspect.isfunction(thing)
            if public and thing.__module__.startswith("stitchflow") and name[0] != "_":
                found[f"{module.__name__}.{name}"] = thing
    return found


def arguments(thing: object) -> list[str]:
    """The names of what a caller may hand over."""
    try:
        parameters = inspect.signature(thing).parameters  # type: ignore[arg-type]
    except ValueError:
        return []
    return [name for name in parameters if name not in ("self", "args", "kwargs")]


@pytest.mark.parametrize("name", documented())
def test_every_argument_is_explained(name):
    thing = documented()[name]
    text = inspect.getdoc(thing) or ""
    assert text, f"{name} has no docstring"
    if inspect.isclass(thing) and issubclass(thing, (Warning, Exception)):
        return
    said = {arg for arg in arguments(thing) if re.search(rf"\b{arg}\b", text)}
    missing = [arg for arg in arguments(thing) if arg not in said]
    assert not missing, f"{name} does not explain {', '.join(missing)}"
