"""Other methods under the same contract, one file each; none imports another."""

from stitchflow.rivals._action_matching import ActionMatching
from stitchflow.rivals._lagrangian import LagrangianBridge, LagrangianOT
from stitchflow.rivals._nearest import Nearest
from stitchflow.rivals._ot_linear import OTLinear
from stitchflow.rivals._path_flow import PathFlow

__all__ = ["ActionMatching", "LagrangianBridge", "LagrangianOT", "Nearest", "OTLinear", "PathFlow"]
