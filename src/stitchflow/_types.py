"""Axis vocabulary and the few conversions every public entrance shares.

Axes used in every jaxtyping annotation: `t` times, `k` curve nodes, `i` intervals between them,
`s` stations in time, `n` particles or individuals, `d` dimensions, `m` query points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._status import BadInput, BadInputType

Scalar = Float[Array, ""]
KeyLike = Any  # a JAX key or an int seed
ArrayLike = Any


def as_key(key: KeyLike) -> Array:
    """A JAX key from a key or an integer seed."""
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        if not -(2**63) <= key < 2**63:
            raise BadInput(f"key must be an int seed of at most 64 bits, got {key}")
        # JAX without 64-bit numbers drops the upper half of a seed; both halves count here.
        upper, lower = divmod(int(key), 2**32)
        small = jax.random.key(np.uint32(lower))
        return small if upper == 0 else jax.random.fold_in(small, np.uint32(upper % 2**32))
    if isinstance(key, jax.Array):
        if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
            return key
        if key.dtype == jnp.uint32 and key.shape == (2,):
            return jax.random.wrap_key_data(key)
    raise BadInputType(f"key must be an int seed or a JAX key, got {key!r}")


def as_rng(key: KeyLike) -> np.random.Generator:
    """A NumPy generator that follows from `key`, for the parts that run on the host."""
    return np.random.default_rng(np.asarray(jax.random.key_data(as_key(key))).tolist())


# NumPy would make a float of each of these without a word: days, nanoseconds, the real part.
NO_NUMBERS = (np.datetime64, np.timedelta64, np.complexfloating)

# Beyond this size float32, which everything is computed in, has no room for squares of squares.
LARGEST = 1e30


def as_numbers(values: ArrayLike, name: str) -> np.ndarray:
    """A float array of whatever means real numbers, or a `ValueError` that names the argument."""
    if hasattr(values, "nnz"):  # a sparse matrix
        values = as_dense(values, name)
    check_unmasked(values, name)
    try:
        array = np.asarray(values)
        if array.dtype.kind in "mM":
            raise BadInputType("dates and durations have no unit of their own; divide by one first")
        if array.dtype.kind == "c":
            raise BadInputType("complex numbers have no order")
        if array.dtype == object and any(isinstance(value, NO_NUMBERS) for value in array.flat):
            raise BadInputType("dates, durations and complex numbers are none")
        if array.dtype.kind != "f" or array.dtype.itemsize not in (4, 8):
            array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        kind = getattr(values, "dtype", type(values).__name__)
        raise BadInput(f"{name} must be numbers, got {kind}: {error}") from None
    return array


def most_unpacked(packed: int) -> int:
    """What takes so many bytes may unpack to a quarter of a gigabyte and 100 times its own size."""
    return 2**28 + 100 * packed


def as_dense(matrix: Any, name: str) -> np.ndarray:
    """The array of a sparse matrix, unless it is far larger than what the matrix holds."""
    size = 8 * math.prod(matrix.shape)
    if size > most_unpacked(8 * matrix.nnz):
        raise BadInput(
            f"{name} is a sparse matrix of shape {matrix.shape} that would take {size:,} bytes as "
            "a dense one: reduce its dimensions first"
        )
    return matrix.toarray()


def check_unmasked(values: ArrayLike, name: str) -> None:
    """A masked array would lose its mask, and what it hides would count."""
    if np.ma.is_masked(values):
        raise BadInput(f"{name} must be known in every row, got masked entries among them")


def as_cloud(x: ArrayLike, name: str, dim: int | None = None) -> np.ndarray:
    """A finite (n, dim) float array, or a `ValueError` that names the argument and the row."""
    x = as_numbers(x, name)
    if x.ndim == 1:
        x = x[:, None] if dim in (None, 1) else x[None, :]
    if x.ndim != 2 or x.shape[1] == 0:
        raise BadInput(f"{name} must have shape (points, dimensions), got shape {x.shape}")
    if dim is not None and x.shape[1] != dim:
        raise BadInput(f"{name} must have {dim} dimensions, got {x.shape[1]}")
    bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if bad.size:
        raise BadInput(f"{name} must be finite, got NaN or infinity in {rows_named(bad)}")
    far = np.flatnonzero((np.abs(x) > LARGEST).any(axis=1))
    if far.size:
        raise BadInput(f"{name} must be below {LARGEST:g} in size, got more in {rows_named(far)}")
    return x


def as_weights(weights: ArrayLike, n: int, name: str = "weights") -> np.ndarray | None:
    """One finite number that is not negative for each of n points, not all zero; or None."""
    if weights is None:
        return None
    values = np.asarray(as_numbers(weights, name), np.float64)
    if values.shape != (n,):
        raise BadInput(f"{name} must have one entry per point ({n},), got {values.shape}")
    bad = np.flatnonzero(~np.isfinite(values) | (values < 0))
    if bad.size:
        raise BadInput(
            f"{name} must be finite and not negative, got otherwise in {rows_named(bad)}"
        )
    if not values.any():
        raise BadInput(f"{name} must not be all zero")
    return values / values.max()


def as_labels(column: ArrayLike, name: str) -> np.ndarray | None:
    """Names that can be told apart, or an error: a missing one would be everybody's."""
    if column is None:
        return None
    check_unmasked(column, name)
    labels = np.asarray(column)
    try:
        if labels.dtype.kind == "U" and not all(isinstance(label, str) for label in column):
            raise BadInputType("NumPy makes one text of 7 and of '7'")
        absent = [label is None or bool(label != label) for label in labels.tolist()]
        np.unique(labels[~np.array(absent, bool)])
    except TypeError:
        raise BadInput(f"{name} must be all text or all numbers, got a mixture") from None
    if any(absent):
        raise BadInput(f"{name} are missing in {rows_named(np.flatnonzero(absent))}")
    return labels


def as_groups(groups: ArrayLike, n: int) -> np.ndarray | None:
    """One label for each of n points, or None."""
    labels = as_labels(groups, "groups")
    if labels is not None and labels.shape != (n,):
        raise BadInput(f"groups must have one entry per point ({n},), got {labels.shape}")
    return labels


def rows_named(rows: np.ndarray, most: int = 5) -> str:
    """`row 3` or `rows 3, 8, ... (12 in all)`, for error messages."""
    listed = ", ".join(str(int(row)) for row in rows[:most])
    if rows.size == 1:
        return f"row {listed}"
    return f"rows {listed}" + (f", ... ({rows.size} in all)" if rows.size > most else "")


def as_times(times: ArrayLike, name: str = "times") -> np.ndarray:
    """A finite 1-D float64 array of times."""
    values = np.atleast_1d(as_numbers(times, name)).astype(np.float64)
    if values.ndim != 1 or values.size == 0:
        raise BadInput(f"{name} must be a non-empty list of numbers, got shape {values.shape}")
    if not np.isfinite(values).all():
        bad = rows_named(np.flatnonzero(~np.isfinite(values)))
        raise BadInput(f"{name} must be finite, got NaN or infinity in {bad}")
    if np.abs(values).max() > LARGEST:
        raise BadInput(f"{name} must be below {LARGEST:g} in size, got {values.tolist()[:5]}")
    return values


def near_times(wanted: ArrayLike, times: np.ndarray) -> np.ndarray:
    """(wanted, time): which of the times each wanted one is, within 1e-9 of their range.

    Never within a share of their size: seconds since 1970 are close to each other in that measure.
    One rounding error of a sum of such numbers is allowed too.
    """
    rounding = np.spacing(np.abs(times).max(initial=0.0))
    slack = max(1e-9 * float(np.ptp(times)), float(rounding)) if len(times) else 0.0
    return np.abs(np.atleast_1d(np.asarray(wanted, float))[:, None] - times[None, :]) <= slack


def check_count(value: Any, name: str, least: int = 1) -> int:
    """An integer of at least `least`, or an error that names it."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise BadInputType(f"{name} must be an integer, got {value!r}")
    if value < least:
        raise BadInput(f"{name} must be at least {least}, got {value}")
    return int(value)


def check_number(
    value: Any,
    name: str,
    low: float = -np.inf,
    high: float = np.inf,
    *,
    open_low: bool = False,
) -> float:
    """A finite number in [low, high] (or (low, high]), or an error that names it."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise BadInputType(f"{name} must be a number, got {value!r}")
    below = value <= low if open_low else value < low
    if not np.isfinite(value) or below or value > high:
        left = "(" if open_low else "["
        raise BadInput(f"{name} must be in {left}{low:g}, {high:g}], got {value:g}")
    return float(value)


def check_hidden(hidden: Any) -> tuple[int, ...]:
    """Layer widths, or an error that names `hidden`."""
    if isinstance(hidden, str) or not isinstance(hidden, Sequence):
        raise BadInputType(
            f"hidden must be a tuple of layer widths such as (64, 64), got {hidden!r}"
        )
    return tuple(check_count(width, "hidden width") for width in hidden)
