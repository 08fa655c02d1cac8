"""Every method by the name it has on the command line and in tables."""

from __future__ import annotations

from collections.abc import Callable

from stitchflow._method.contract import Method
from stitchflow._stitching.stitching import Stitching
from stitchflow.rivals import (
    CNF,
    OTCFM,
    ActionMatching,
    IJKOnet,
    JKOnet,
    JKOnetStar,
    JKOnetStarLinear,
    LagrangianBridge,
    LagrangianOT,
    Nearest,
    NeuralSDE,
    OTLinear,
    OTSpline,
    PathFlow,
    SchrodingerBridge,
)

METHODS: dict[str, Callable[[], Method]] = {
    "stitching": Stitching,
    "stitching-varying": Stitching.varying,
    "nearest": Nearest,
    "ot-linear": OTLinear,
    "ot-spline": OTSpline,
    "jkonet": JKOnet,
    "jkonet-star": JKOnetStar,
    "jkonet-star-linear": JKOnetStarLinear,
    "ijkonet": IJKOnet,
    "action-matching": ActionMatching,
    "wlf-ot": LagrangianOT,
    "wlf-sb": LagrangianBridge,
    "ot-cfm": OTCFM,
    "neural-sde": NeuralSDE,
    "schrodinger-bridge": SchrodingerBridge,
    "cnf": CNF,
    "path-flow": PathFlow,
}
