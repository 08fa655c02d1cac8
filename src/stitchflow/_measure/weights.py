"""What trains the weights of the particles."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import equinox as eqx
import jax

from stitchflow._measure.curve import Curve
from stitchflow._parts import Part


@dataclass(frozen=True)
class Weights(Part):
    """A rule for which terms of the objective train the weights; subclasses define `shown`."""

    @abstractmethod
    def shown(self, curve: Curve) -> Curve:
        """The curve as the residual sees it.

        Arguments:
            curve: the curve that is trained.

        Returns:
            The same curve, perhaps with weights that pass on no gradient.
        """


@dataclass(frozen=True)
class DataWeights(Weights):
    """Only the data term trains the weights. The default.

    The residual would empty the paths that the energy cannot explain.

    >>> sf.Stitching().weights
    DataWeights()
    """

    def shown(self, curve: Curve) -> Curve:
        return eqx.tree_at(lambda c: c.log_weights, curve, jax.lax.stop_gradient(curve.log_weights))


@dataclass(frozen=True)
class JointWeights(Weights):
    """Data term and residual both train the weights: the paper's choice.

    >>> sf.Stitching(weights=JointWeights()).weights
    JointWeights()
    """

    def shown(self, curve: Curve) -> Curve:
        return curve
