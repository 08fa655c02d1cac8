"""A value and how far it is known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Spread(NamedTuple):
    """A mean and a standard deviation: over members of an ensemble, or of what is known of a value.

    Arguments:
        mean: the value.
        sd: the standard deviation, of the same shape.

    >>> sf.Spread(np.array([1.0]), np.array([0.5])).sd.tolist()
    [0.5]
    """

    mean: np.ndarray
    sd: np.ndarray
