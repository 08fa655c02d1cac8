"""What methods are made of: parts known by their names, described as plain JSON, and made again.

A class of this package is `stitchflow.KL` wherever it is defined; anything else is known by its
module and qualified name. What a file names is looked for among the classes that are there already
and the parts that the user hands over: nothing is ever imported because a file says so.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from stitchflow._status import BadInput

PACKAGE = "stitchflow"

# The metadata of a setting that is left out while it has its default: stored results of methods
# that did not have it yet still stand for those that do.
LATER = {"left out by default": True}

NAMELESS = "<lambda>"  # and so known by the setting it is for

PLAIN = (type(None), bool, int, float, str)


class Part:
    """The base of whatever a method is made of; to subclass it is all that a new part needs."""


def name_of(thing: Any) -> str:
    """The name of a class or a function in files, in checkpoints and in messages."""
    if isinstance(thing, functools.partial):
        return _public(thing) or name_of(thing.func)
    module, name = _place(thing)
    top = module.partition(".")[0]
    if is_built_in(thing):
        return f"{PACKAGE}.{name}"
    # `optax.nadam` stays that name whichever file of optax it is written in.
    return f"{top if getattr(sys.modules.get(top), name, None) is thing else module}.{name}"


def _public(bound: functools.partial) -> str | None:
    """The name of a function with bound arguments in its package, such as `optax.nadam`."""
    top = _place(bound.func)[0].partition(".")[0]
    found = (n for n, value in vars(sys.modules.get(top, _public)).items() if value is bound)
    return next((f"{top}.{name}" for name in found), None)


def _place(thing: Any) -> tuple[str, str]:
    kind = thing if hasattr(thing, "__qualname__") else type(thing)
    return str(getattr(kind, "__module__", None) or "builtins"), str(kind.__qualname__)


def is_built_in(kind: Any) -> bool:
    """Whether this package really defines it; to bear such a name is not enough."""
    module, name = _place(kind)
    if module != PACKAGE and not module.startswith(f"{PACKAGE}."):
        return False
    return getattr(sys.modules.get(module), name, None) is kind


def is_own(value: Any) -> bool:
    """Whether a function, or an object that is called, was written outside this package."""
    return callable(value) and not is_built_in(type(value)) and not is_built_in(value)


def built_in(name: Any, base: type = Part) -> type | None:
    """The class of this package with that name, among the subclasses of `base`."""
    found = (kind for kind in _below(base) if is_built_in(kind) and name_of(kind) == name)
    return next(found, None)


def constructor_defaults(kind: Any) -> dict[str, Any]:
    """The settings of a class that need not be given, by what they are then."""
    taken = inspect.signature(kind).parameters.items()
    return {name: s.default for name, s in taken if s.default is not s.empty}


def default_of(field: Any) -> Any:
    """What a field of a dataclass is where its setting is not given."""
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def _below(base: type) -> Iterator[type]:
    for kind in base.__subclasses__():
        yield kind
        yield from _below(kind)


# ---- a part as plain JSON


def described(value: Any, *, code: bool = False, leave_out: tuple[str, ...] = ()) -> Any:
    """A part as plain JSON: its name and its settings, which are described likewise.

    A function is its name and what it holds: closed-over values, defaults, bound arguments. Arrays
    and other objects are told apart, but cannot be made again from their description. With `code`,
    functions and classes of one's own are also told apart by what they do, for the same Python.
    """
    return _Describer(code).of(value, leave_out)


@dataclasses.dataclass
class _Describer:
    code: bool
    within: list[int] = dataclasses.field(default_factory=list)

    def of(self, value: Any, leave_out: tuple[str, ...] = ()) -> Any:
        if isinstance(value, PLAIN):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if id(value) in self.within:  # a function that calls itself
            return {"again": name_of(type(value))}
        self.within.append(id(value))
        try:
            return self._of_whole(value, leave_out)
        finally:
            self.within.pop()

    def _of_whole(self, value: Any, leave_out: tuple[str, ...]) -> Any:
        if isinstance(value, (list, tuple)):
            return [self.of(entry) for entry in value]
        if isinstance(value, Mapping):
            return {"mapping": {str(key): self.of(entry) for key, entry in value.items()}}
        if isinstance(value, type):
            return {"function": name_of(value)} | self._class_code(value)
        if dataclasses.is_dataclass(value):
            named = {"class": name_of(type(value))} | self._fields(value, leave_out)
            return named | self._class_code(type(value))
        if isinstance(value, functools.partial):
            bound = {"arguments": self.of(value.args), "keywords": self.of(value.keywords)}
            return self.of(value.func) | bound | {"function": name_of(value)}
        if isinstance(value, MethodType):
            return self.of(value.__func__) | {"of": self.of(value.__self__)}
        if callable(value) and isinstance(inspect.unwrap(value), FunctionType):
            return self._function(inspect.unwrap(value), value)
        if hasattr(value, "__array__"):
            return {"array": _array(np.asarray(value))}
        if callable(value) and hasattr(value, "__qualname__"):
            return {"function": name_of(value)}
        return {"object": name_of(type(value))} | _words(value)

    def _fields(self, value: Any, leave_out: tuple[str, ...]) -> dict[str, Any]:
        found = {}
        for field in dataclasses.fields(value):
            entry = getattr(value, field.name)
            later = LATER.items() <= field.metadata.items() and entry == default_of(field)
            usual = callable(entry) and entry is field.default
            if not later and not usual and field.name not in leave_out:
                found[field.name] = self.of(entry)
                if str(_name(found[field.name])).endswith(NAMELESS):
                    found[field.name]["function"] += f" for {field.name}"
        return found

    def _function(self, function: FunctionType, whole: Any) -> dict[str, Any]:
        name = name_of(whole if hasattr(whole, "__qualname__") else function)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        held = {name: self._held(cell) for name, cell in cells}
        for index, default in enumerate(function.__defaults__ or ()):
            held[f"default {index}"] = self.of(default)
        for name_, default in (function.__kwdefaults__ or {}).items():
            held[f"default {name_}"] = self.of(default)
        entry: dict[str, Any] = {"function": name} | ({"holds": held} if held else {})
        if self.code and not is_built_in(function):
            seen = {n: function.__globals__.get(n) for n in _names(function.__code__)}
            entry["globals"] = {n: self._global(v, function) for n, v in sorted(seen.items())}
            entry["code"] = _code(function.__code__)
        return entry

    def _held(self, cell: Any) -> Any:
        try:
            return self.of(cell.cell_contents)
        except ValueError:  # nothing was put into it yet
            return None

    def _global(self, value: Any, function: FunctionType) -> Any:
        """What a function finds in its module: values as they are, others' code by its name."""
        if isinstance(value, ModuleType):
            return value.__name__
        if isinstance(value, type) or (
            callable(value) and getattr(value, "__module__", None) != function.__module__
        ):
            return name_of(value)
        return self.of(value)

    def _class_code(self, kind: type) -> dict[str, Any]:
        """What the methods of a class of one's own do, and of those it is made from."""
        if not self.code or is_built_in(kind):
            return {}
        own = [base for base in kind.__mro__ if base.__module__ == kind.__module__]
        methods = {}
        for base in reversed(own):
            for name in vars(base):
                found = inspect.unwrap(getattr(base, name, None))  # pyright: ignore
                found = getattr(found, "fget", None) or found
                if isinstance(found, FunctionType) and found.__module__ == kind.__module__:
                    methods[name] = self._function(found, found)
        return {"methods": methods}


def _name(entry: Any) -> Any:
    return entry.get("class") or entry.get("function") if isinstance(entry, dict) else None


def _array(array: np.ndarray) -> dict[str, Any]:
    content = np.ascontiguousarray(array) if array.dtype != object else np.asarray(repr(array))
    digest = sha256(content.tobytes()).hexdigest()
    return {"shape": list(array.shape), "dtype": str(array.dtype), "sha256": digest}


def _words(value: Any) -> dict[str, str]:
    """What an object says of itself, unless that is only where it is in memory."""
    words = repr(value)
    return {} if " at 0x" in words else {"sha256": sha256(words.encode()).hexdigest()}


def _names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _code(code: CodeType) -> str:
    """The hash of what a function does, wherever it is written."""
    digest = sha256(code.co_code + repr(code.co_names).encode())
    for constant in code.co_consts:
        if isinstance(constant, frozenset):  # its order changes from process to process
            constant = sorted(map(repr, constant))
        words = _code(constant) if isinstance(constant, CodeType) else repr(constant)
        digest.update(words.encode())
    return digest.hexdigest()


# ---- and back


def made(entry: Any, parts: Mapping[str, Any], kind: type | None = None) -> Any:
    """What `described` described, by classes of this package and by parts that are handed over.

    `kind` is the class to be made where it is known already.
    """
    if isinstance(entry, list):
        return tuple(made(value, parts) for value in entry)
    if not isinstance(entry, dict):
        return entry
    if "class" in entry:
        return _made(entry, parts, kind)
    if set(entry) == {"mapping"}:
        return {key: made(value, parts) for key, value in entry["mapping"].items()}
    if "function" in entry:
        return _checked(handed(entry["function"], parts), entry)
    raise BadInput(f"it holds an object that cannot be made again: {entry}")


def _made(entry: dict[str, Any], parts: Mapping[str, Any], kind: type | None) -> Any:
    name = entry["class"]
    kind = built_in(name) if kind is None else kind
    kind = handed(name, parts) if kind is None else kind
    if not isinstance(kind, type):
        return _checked(kind, entry)
    settings = {key: value for key, value in entry.items() if key != "class"}
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    for key in settings:
        if key not in {field.name for field in fields}:
            raise BadInput(f"{name} has no setting {key!r}")
    if not all(map(_can_be_made, settings.values())):
        raise BadInput(f"{name} holds arrays or objects: hand over one like it, not its class")
    return kind(**{key: made(value, parts) for key, value in settings.items()})


def _can_be_made(entry: Any) -> bool:
    if isinstance(entry, list):
        return all(map(_can_be_made, entry))
    return not isinstance(entry, dict) or not {"array", "object", "again"} & set(entry)


def handed(name: Any, parts: Mapping[str, Any]) -> Any:
    """A part of one's own by its name, or the sentence that asks for it."""
    if name in parts:
        return parts[name]
    raise BadInput(
        f"the run holds a part of your own, {name}, which is never stored: "
        f"hand it over by parts={{{name!r}: ...}}"
    )


def _checked(given: Any, entry: dict[str, Any]) -> Any:
    found = described(given)
    if not alike(found, entry):
        raise BadInput(f"parts: {_name(entry)} should be {entry}, got {found}")
    return given


def alike(one: Any, other: Any) -> bool:
    """Whether two descriptions agree; a module of one's own may have got another name."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one == other
    named = ("class", "function", "object")
    return one.keys() == other.keys() and all(
        same_name(one[key], other[key]) if key in named else alike(one[key], other[key])
        for key in one
    )


def same_name(one: Any, other: Any) -> bool:
    """Whether two names are one, but for the module of what is not this package's."""
    if any(str(name).startswith(f"{PACKAGE}.") for name in (one, other)):
        return one == other
    last = [str(name).partition(" for ")[0].rpartition(".")[2] for name in (one, other)]
    return last[0] == last[1]
