"""What a fit uses where the user left the choice to the data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.pair_terms import VectorKernel

if TYPE_CHECKING:
    from stitchflow._stitching.stitching import Stitching

STEPS = 2000

# Steps of the second stage, as a share of the first's; a fit too short to converge has none.
REFINING, LONG = 0.4, 500

# Steps of the third stage, in those of the second: they are a fifth as dear.
SETTLING = 2

# The residual weighs as much as this many individuals a snapshot: the data term is a mean, and
# its say grows with the number of individuals behind it.
WORTH = 400

# Up to this many times the weight stays as it is; beyond, it grows with their number's root.
FEW_TIMES = 6

# Particles of a curve with diffusion. Draws, not particles, are what a step costs.
MOST_PARTICLES = 500

# From this many dimensions on no kernel shows the density: likelihood would make particles the
# means of many individuals each, and the cloud too narrow. They stay the individuals they are.
MANY_DIMENSIONS, MOST_STILL = 20, 2000

# Without diffusion a particle is an individual's path, and as many as this are followed; fewer
# where a kernel of the displacement looks at every pair of them.
MOST_PATHS, MOST_PAIRED = 1000, 250


def resolve(method: Stitching, data: Snapshots) -> Stitching:
    """The settings of `method` with every None replaced by what suits the data."""
    n, motion = float(np.mean(data.counts)), data.motion
    steps, batch, alpha, draws = STEPS, 1024, 1.0, 100
    # As many particles as individuals copy their noise into the score and with it into beta;
    # in many dimensions there is no score to save, and every individual counts. Many small
    # snapshots share their individuals with their neighbours.
    share = float(np.clip(data.dim / MANY_DIMENSIONS, 0.3, 1.0))
    fewest = max(min(n, 100), min(len(data.x) / 10, 100))
    most, stations = round(min(max(share * n, fewest), MOST_PARTICLES)), 8
    learn = data.dim < MANY_DIMENSIONS
    if not learn:
        most, batch = round(min(max(n, fewest), MOST_STILL)), 32  # only to be told how likely
    if not method.energy.needs_density:
        # Particles are characteristics: exact at the centres, where no kernel blurs them.
        learn = True
        steps, batch, alpha, draws = 1500, 512, 0.0, None
        kernel = bool(method.energy.only(VectorKernel))
        most = round(min(n, MOST_PAIRED if kernel else MOST_PATHS))
        stations = 2 if kernel else max(2, min(8, 2048 // most))
    choose = lambda given, default: default if given is None else given
    steps = choose(method.optimiser.steps, steps)
    # One potential for all times seldom fits the curve; it then answers for where it leads.
    bound = method.energy.needs_density and not method.energy.time_varying
    refining = round(REFINING * steps) if bound and steps >= LONG else 0
    # The residual is judged against the motion there is: slow data needs a stricter one.
    # And the data term is a sum over times, so that many of them need a stricter one too.
    weight = float(np.clip(WORTH / n, 0.1, 10.0)) * max(1.0, len(data) / FEW_TIMES) ** 0.5
    weight /= min(1.0, motion.distance**2)
    choices = {"alpha": alpha, "weight": weight, "stations": stations}
    choices |= {"ridge": motion.noise, "draws": draws}
    learns = {
        name: choose(getattr(method, name), learn)
        for name in ("learn_particles", "learn_weights", "learn_bandwidth")
    }
    nodes = choose(method.nodes, max(25, min(50, 5 * len(data))))
    curve = method.curve
    if curve is not None and curve.knots is None:
        curve = replace(curve, knots=min(nodes, 2 * len(data)))
    more = choose(method.consistency.steps, refining)
    settling = SETTLING * more if any(learns.values()) else 0
    return replace(
        method,
        **learns,
        particles=choose(method.particles, most),
        nodes=nodes,
        batch=choose(method.batch, batch),
        residual=method.residual.filled_in(choices),
        curve=curve,
        consistency=replace(
            method.consistency,
            steps=more,
            settling=choose(method.consistency.settling, settling),
            individuals=choose(method.consistency.individuals, round(np.clip(n / 8, 32, 192))),
        ),
        optimiser=replace(method.optimiser, steps=steps),
    )
