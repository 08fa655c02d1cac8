"""Other methods under the same contract, one file each; none imports another.

A method is in `METHODS` once its file is imported here. Tables and `stitchflow bench --methods`
list methods in this order, those without training first.
"""

# ruff: isort: off
from stitchflow.rivals._nearest import Nearest as Nearest
from stitchflow.rivals._tracks import Tracks as Tracks
from stitchflow.rivals._ot_linear import OTLinear as OTLinear
from stitchflow.rivals._ot_spline import OTSpline as OTSpline
from stitchflow.rivals._jkonet import JKOnet as JKOnet
from stitchflow.rivals._jkonet_star import JKOnetStar as JKOnetStar
from stitchflow.rivals._jkonet_star_linear import JKOnetStarLinear as JKOnetStarLinear
from stitchflow.rivals._ijkonet import IJKOnet as IJKOnet
from stitchflow.rivals._action_matching import ActionMatching as ActionMatching
from stitchflow.rivals._lagrangian import LagrangianBridge as LagrangianBridge
from stitchflow.rivals._lagrangian import LagrangianOT as LagrangianOT
from stitchflow.rivals._ot_cfm import OTCFM as OTCFM
from stitchflow.rivals._neural_sde import NeuralSDE as NeuralSDE
from stitchflow.rivals._schrodinger_bridge import SchrodingerBridge as SchrodingerBridge
from stitchflow.rivals._cnf import CNF as CNF
from stitchflow.rivals._path_flow import PathFlow as PathFlow
