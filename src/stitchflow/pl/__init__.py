"""Plots. Every function takes `ax=` and returns the Axes; the caller shows or saves the figure."""

from stitchflow.pl._charts import cross_validation, history, interaction
from stitchflow.pl._clouds import snapshots, trajectories
from stitchflow.pl._maps import landscape, uncertainty
from stitchflow.pl._stream import project, stream

__all__ = [
    "cross_validation",
    "history",
    "interaction",
    "landscape",
    "project",
    "snapshots",
    "stream",
    "trajectories",
    "uncertainty",
]
