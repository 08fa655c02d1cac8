"""Other methods under the same contract, one file each; none imports another."""

from stitchflow.rivals._nearest import Nearest
from stitchflow.rivals._ot_linear import OTLinear
from stitchflow.rivals._ot_spline import OTSpline

__all__ = ["Nearest", "OTLinear", "OTSpline"]
