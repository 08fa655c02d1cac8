"""Every number of the default method, with the reason for its value.

This file imports nothing, so that any part of the library may read it. The tables behind the
choices are on the page `docs/decisions.md`; each group names its section there.
"""

# ---- Size of the curve: docs/decisions.md#size-of-the-curve

# More particles cost little beside the draws of a step, and 500 already describe a cloud as well
# as its individuals do.
MOST_PARTICLES = 500

# Particles as a share of the individuals of a snapshot. As many particles as individuals would
# copy the sampling noise into the score, and with it into beta.
PARTICLE_SHARE = 0.3

# Fewer particles than this leave holes in the curve; also where snapshots are small and many, as
# long as each particle stands for ten individuals of the whole data.
FEWEST_PARTICLES, INDIVIDUALS_PER_PARTICLE = 100, 10

# From this many dimensions on no kernel describes the density: likelihood would make each particle
# the mean of many individuals, and the cloud too narrow. Particles then stay at individuals.
MANY_DIMENSIONS, MOST_FIXED_PARTICLES = 20, 2000

# Without diffusion a particle is the path of an individual, and up to this many are followed;
# fewer where a kernel of the displacement is evaluated at every pair of them.
MOST_PATHS, MOST_PAIRED_PATHS = 1000, 250

# Nodes in time: enough for curved paths between two snapshots, few enough for a fast step.
FEWEST_NODES, MOST_NODES, NODES_PER_SNAPSHOT = 25, 50, 5

# Knots of a spline: two a snapshot bend as much as the data can show.
KNOTS_PER_SNAPSHOT = 2

# ---- Start of the curve: docs/decisions.md#start-of-the-curve

# Individuals of a time that are matched; more do not change the start.
MOST_MATCHED = 20_000

# Particles that start at the same individual are moved apart by this share of the kernel's width;
# otherwise they would stay together for the whole fit.
JITTER = 0.1

# ---- Kernel: docs/decisions.md#kernel

# The narrowest kernel, as a share of the one that predicts left-out individuals best. Narrower
# ones describe the sample, make its score pure noise, and so drive beta to zero.
NARROWEST_KERNEL = 0.5

# The widest kernel, as a share of a snapshot's spread. In many dimensions likelihood asks for
# kernels as wide as the cloud, whose draws are nowhere near an individual; beyond a few dimensions
# the share falls, so that the length of a kernel's draw stays the same.
WIDEST_KERNEL, FEW_DIMENSIONS = 0.35, 5

# ---- Objective: docs/decisions.md#objective

# The residual counts as much as this many individuals a snapshot: the data term is a mean, and it
# is the better known the more individuals it is taken over. The weight stays within its range.
RESIDUAL_INDIVIDUALS, RESIDUAL_WEIGHTS = 400, (0.1, 10.0)

# Up to this many times the weight stays as it is; beyond, it grows with the root of their number,
# because the data term is a sum over times.
FEW_TIMES = 6

# Where the residual is evaluated: at draws from the kernels, so that the energy is trained where
# unseen individuals are; at the particles themselves where there is no diffusion.
ALPHA, ALPHA_OF_PATHS = 1.0, 0.0

# Draws at each of so many intervals of a step: together they set the cost of a step.
DRAWS, STATIONS = 100, 8

# Without diffusion the stations of a step look at no more than this many places, and at two
# stations at least; with a vector kernel at two.
PLACES_OF_PATHS, FEWEST_STATIONS = 2048, 2

# Individuals of a step's data term; few where likelihood is used for reporting only, since
# particles are fixed.
BATCH, BATCH_OF_PATHS, BATCH_OF_FIXED = 1024, 512, 32

# ---- Stages: docs/decisions.md#stages

# Steps of the first stage, after which the loss falls no further on the data sets tried.
STEPS, STEPS_OF_PATHS = 2000, 1500

# Steps of the second stage, as a share of the first's; a first stage of fewer steps has not
# converged, and is not followed by another.
CONSISTENCY_SHARE, FEWEST_STEPS = 0.4, 500

# Individuals that are carried at each time of the second stage: a share of a snapshot, in a range
# that keeps the distance between two clouds informative and its cost low.
CARRIED_SHARE, FEWEST_CARRIED, MOST_CARRIED = 1 / 8, 32, 192

# Steps of the third stage, as a multiple of the second's: each costs about a fifth of one there.
SETTLING = 2

# The curve is trained under a fixed energy only if the energy leaves no more than this share of
# its motion unexplained; otherwise the data describe the curve better than the energy does.
MOST_UNEXPLAINED = 0.2
