"""Plots. Every function takes `ax=` and returns the Axes; the caller shows or saves the figure."""

from stitchflow.pl._certainty import identifiability as identifiability
from stitchflow.pl._certainty import interaction as interaction
from stitchflow.pl._certainty import least_determined as least_determined
from stitchflow.pl._certainty import section as section
from stitchflow.pl._charts import cross_validation as cross_validation
from stitchflow.pl._charts import history as history
from stitchflow.pl._clouds import snapshots as snapshots
from stitchflow.pl._clouds import trajectories as trajectories
from stitchflow.pl._difference import difference as difference
from stitchflow.pl._maps import landscape as landscape
from stitchflow.pl._maps import uncertainty as uncertainty
from stitchflow.pl._stream import project as project
from stitchflow.pl._stream import stream as stream
