"""Shapes are checked at run time in every test, and nothing broadcasts by accident."""

import os
import sys
from pathlib import Path

import jax
import pytest
from jaxtyping import install_import_hook

# For the package `paper`. Last, so that benchmarks/coverage.py does not hide the real coverage.
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
install_import_hook("stitchflow", "shapes.arrays_only")
jax.config.update("jax_numpy_rank_promotion", "raise")

# Programs of tests run for an instant: to optimise them would take longer than to run them.
QUICK = "jax_disable_most_optimizations"
os.environ[QUICK.upper()] = "1"  # for the processes that tests start

# Choices by evidence can turn on the last digit, so these files compile as users do. Their time is
# not spent on compilation.
AS_USERS_DO = ("test_weak_form", "test_identif")

# The files that take longest. Workers get them first, so that none waits for another at the end.
LONGEST = ("test_contract", "test_stitching", "test_cli", "test_pages", "test_identifiability")
LONGEST += ("test_report", "test_demo", "test_readme", "test_anchor", "test_diagnose")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: k for k, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(LONGEST)))


@pytest.fixture(autouse=True, scope="module")
def leave_nothing_behind(request: pytest.FixtureRequest):
    """What one file compiled or drew no other file needs; kept, it would fill gigabytes."""
    jax.config.update(QUICK, not request.path.stem.startswith(AS_USERS_DO))
    yield
    jax.clear_caches()
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def x64():
    """Double precision, for closed forms."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("STITCHFLOW_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no data at {folder}; set STITCHFLOW_DATA")
    return folder
