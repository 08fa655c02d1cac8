"""Every method by the name it has on the command line and in tables."""

from __future__ import annotations

from collections.abc import Callable

from stitchflow._method import Method
from stitchflow._stitching import Stitching
from stitchflow.rivals import IJKOnet, JKOnet, JKOnetStar, JKOnetStarLinear, Nearest, OTLinear

METHODS: dict[str, Callable[[], Method]] = {
    "stitching": Stitching,
    "stitching-varying": Stitching.varying,
    "nearest": Nearest,
    "ot-linear": OTLinear,
    "jkonet": JKOnet,
    "jkonet-star": JKOnetStar,
    "jkonet-star-linear": JKOnetStarLinear,
    "ijkonet": IJKOnet,
}
