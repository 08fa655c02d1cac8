"""How wide the kernels of a curve are at the start of a fit, and between which bounds they stay."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Array

from stitchflow._measure.curve import CLOSEST, inverse_softplus
from stitchflow._measure.kde import leave_one_out_bandwidth, silverman
from stitchflow._parts import Part
from stitchflow._stitching import defaults
from stitchflow._types import check_number

# An upper bound that bounds nothing. Training takes infinite numbers for a divergence.
NO_BOUND = 1e9


class Widths(NamedTuple):
    """The widths of a curve's kernels, one for each dimension.

    Arguments:
        raw: what the softplus of, added to `least`, is the width at the start.
        least: the lower bounds.
        most: the upper bounds.
    """

    raw: Array
    least: np.ndarray
    most: np.ndarray


@dataclass(frozen=True)
class Kernel(Part):
    """A rule for the width of the kernels; subclasses define `widths`."""

    @abstractmethod
    def widths(
        self, clouds: list[np.ndarray], silverman: np.ndarray, rng: np.random.Generator
    ) -> Widths:
        """The first widths and their bounds, in internal units.

        Arguments:
            clouds: the individuals of each time.
            silverman: Silverman's widths of the particles, averaged over the times.
            rng: the source of randomness.

        Returns:
            The widths.
        """


@dataclass(frozen=True)
class BoundedKernel(Kernel):
    """Silverman's widths, kept between bounds that individuals left out suggest. The default.

    Narrower kernels describe the sample, and their score is noise; wider ones blur the cloud.

    >>> sf.Stitching().kernel
    BoundedKernel()
    """

    def widths(
        self, clouds: list[np.ndarray], silverman: np.ndarray, rng: np.random.Generator
    ) -> Widths:
        dim = clouds[0].shape[1]
        widest = defaults.WIDEST_KERNEL * min(1.0, defaults.FEW_DIMENSIONS / dim) ** 0.5
        most = widest * np.mean([cloud.std(axis=0) for cloud in clouds], axis=0)
        # Snapshots may be of one individual, or of copies; no kernel is narrower than float32 can
        # tell.
        most = np.maximum(most, max(1e-3 * float(most.max()), CLOSEST))
        least = defaults.NARROWEST_KERNEL * leave_one_out_bandwidth(clouds, rng)
        least = np.maximum(np.minimum(least, 0.5 * most), 0.5 * CLOSEST)
        width = np.minimum(silverman, most)
        return Widths(inverse_softplus(np.maximum(width - least, 0.1 * width)), least, most)


@dataclass(frozen=True)
class FreeKernel(Kernel):
    """Widths that may become any positive number: the paper's choice.

    Arguments:
        width: the width at the start, in internal units; None is Silverman's of each dimension.

    >>> FreeKernel(width=0.5).width
    0.5
    """

    width: float | None = None

    def __post_init__(self) -> None:
        if self.width is not None:
            check_number(self.width, "width", 0.0, open_low=True)

    def widths(
        self, clouds: list[np.ndarray], silverman: np.ndarray, rng: np.random.Generator
    ) -> Widths:
        width = silverman if self.width is None else np.full_like(silverman, self.width)
        start = inverse_softplus(np.maximum(width, CLOSEST))
        return Widths(start, np.zeros_like(width), np.full_like(width, NO_BOUND))


def mean_silverman(chain: np.ndarray) -> np.ndarray:
    """Silverman's widths of matched particles (t, n, d), averaged over the times."""
    return np.mean([np.asarray(silverman(cloud)) for cloud in chain], axis=0)
