"""Every method by the name it has on the command line and in tables."""

from __future__ import annotations

from collections.abc import Callable

from stitchflow._method import Method
from stitchflow._stitching import Stitching
from stitchflow.rivals import (
    ActionMatching,
    LagrangianBridge,
    LagrangianOT,
    Nearest,
    OTLinear,
    PathFlow,
)

METHODS: dict[str, Callable[[], Method]] = {
    "stitching": Stitching,
    "stitching-varying": Stitching.varying,
    "nearest": Nearest,
    "ot-linear": OTLinear,
    "action-matching": ActionMatching,
    "wlf-ot": LagrangianOT,
    "wlf-sb": LagrangianBridge,
    "path-flow": PathFlow,
}
