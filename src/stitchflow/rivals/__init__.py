"""Other methods under the same contract, one file each; none imports another."""

from stitchflow.rivals._ijkonet import IJKOnet
from stitchflow.rivals._jkonet import JKOnet
from stitchflow.rivals._jkonet_star import JKOnetStar
from stitchflow.rivals._jkonet_star_linear import JKOnetStarLinear
from stitchflow.rivals._nearest import Nearest
from stitchflow.rivals._ot_linear import OTLinear

__all__ = ["IJKOnet", "JKOnet", "JKOnetStar", "JKOnetStarLinear", "Nearest", "OTLinear"]
