"""Other methods under the same contract, one file each; none imports another."""

from stitchflow.rivals._action_matching import ActionMatching
from stitchflow.rivals._cnf import CNF
from stitchflow.rivals._ijkonet import IJKOnet
from stitchflow.rivals._jkonet import JKOnet
from stitchflow.rivals._jkonet_star import JKOnetStar
from stitchflow.rivals._jkonet_star_linear import JKOnetStarLinear
from stitchflow.rivals._lagrangian import LagrangianBridge, LagrangianOT
from stitchflow.rivals._nearest import Nearest
from stitchflow.rivals._neural_sde import NeuralSDE
from stitchflow.rivals._ot_cfm import OTCFM
from stitchflow.rivals._ot_linear import OTLinear
from stitchflow.rivals._ot_spline import OTSpline
from stitchflow.rivals._path_flow import PathFlow
from stitchflow.rivals._schrodinger_bridge import SchrodingerBridge

__all__ = [
    "CNF",
    "OTCFM",
    "ActionMatching",
    "IJKOnet",
    "JKOnet",
    "JKOnetStar",
    "JKOnetStarLinear",
    "LagrangianBridge",
    "LagrangianOT",
    "Nearest",
    "NeuralSDE",
    "OTLinear",
    "OTSpline",
    "PathFlow",
    "SchrodingerBridge",
]
