"""The examples in the docstrings give what they say."""

import doctest
import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import stitchflow

MODULES = [
    "stitchflow",
    *(module.name for module in pkgutil.walk_packages(stitchflow.__path__, "stitchflow.")),
]
NAMES = {"sf": stitchflow, "np": np, "stitchflow": stitchflow}
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module(name)
    tests = doctest.DocTestFinder().find(module, name, extraglobs=NAMES)
    # Methods that a decorator hides would be skipped silently.
    written = inspect.getsource(module).count(">>> ")
    assert sum(len(test.examples) for test in tests) == written, "an example was not found"
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    said: list[str] = []
    for test in tests:
        runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
