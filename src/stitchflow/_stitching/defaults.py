"""Every number of the default method, with the reason for its value.

This file imports nothing, so that any part of the library may read it. Each group names its section
of `docs/decisions.md`, where the measurements are; where there is none, the page says so. Limits of
memory and of float32 are not choices of the method and stand beside the code that they protect.
"""

# ---- docs/decisions.md#particles

# More than 500 particles copy individuals; the density is not described any better.
MOST_PARTICLES = 500

# The smallest share of a snapshot's individuals that become particles. As many particles as
# individuals would copy the sampling noise into the score, and with it into beta.
PARTICLE_SHARE = 0.3

# Fewer particles than this leave holes in the curve; also where snapshots are small and many, as
# long as each particle stands for ten individuals of the whole data.
FEWEST_PARTICLES, INDIVIDUALS_PER_PARTICLE = 100, 10

# ---- docs/decisions.md#nodes

# Enough for paths that bend between two snapshots, few enough for a fast step.
FEWEST_NODES, MOST_NODES, NODES_PER_SNAPSHOT = 25, 50, 5

# The part of the nodes that is spread by how far individuals move; the rest is spread evenly.
NODES_BY_ACTION = 0.5

# Individuals whose motion decides where nodes lie; more give the same nodes.
ACTION_INDIVIDUALS = 200

# ---- docs/decisions.md#start

# Individuals of a time that are matched; more do not change the start.
MOST_MATCHED = 20_000

# Points of an exact assignment, and of a random block beyond that: exact matching costs more than
# the fit above this size.
EXACT_ASSIGNMENT, ASSIGNMENT_BLOCK = 2048, 1024

# Particles that start at the same individual are moved apart by this share of the kernel's width;
# otherwise they would stay together for the whole fit.
JITTER = 0.1

# A path leaves the straight line between two snapshots by at most this share of its length, so
# that noise over a short gap is not extrapolated over a long one.
MOST_BEND = 0.5

# ---- docs/decisions.md#shared-drift

# Regularisation of the linear flow, as a share of the mean variance; rounds of matching and
# fitting, after which the flow no longer changes; parts of a gap that the regression looks at.
DRIFT_RIDGE, DRIFT_ROUNDS, DRIFT_PARTS = 0.03, 10, 4

# Individuals and times by which a drift is validated: more give the same answer.
DRIFT_INDIVIDUALS, DRIFT_TIMES = 200, 10

# Fewer individuals or times cannot tell whether a drift predicts.
FEWEST_DRIFT_INDIVIDUALS, FEWEST_DRIFT_TIMES = 10, 4

# The largest ratio of the errors at left-out times with and without the drift: a smaller
# improvement may be due to chance.
DRIFT_GAIN = 0.8

# ---- docs/decisions.md#kernel-width

# The narrowest kernel, as a share of the one that predicts left-out individuals best. Narrower
# ones describe the sample, make its score pure noise, and so drive beta to zero.
NARROWEST_KERNEL = 0.5

# The widest kernel, as a share of a snapshot's spread. In many dimensions likelihood asks for
# kernels as wide as the cloud, whose draws are nowhere near an individual; beyond a few dimensions
# the share falls, so that the length of a kernel's draw stays the same.
WIDEST_KERNEL, FEW_DIMENSIONS = 0.35, 5

# Individuals of a snapshot by which a width is judged, and the widths that are tried, as powers of
# the root of two times Silverman's.
WIDTH_INDIVIDUALS, NARROWEST_TRIED, WIDEST_TRIED = 500, -10, 2

# ---- docs/decisions.md#residual-quadrature

# Where the residual is evaluated: 1 is at draws from the kernels, where unseen individuals are.
ALPHA = 1.0

# Draws at each of so many intervals of a step: together they set the cost of a step.
DRAWS, STATIONS = 100, 8

# ---- docs/decisions.md#widening

# Draws come from kernels this much wider, so that forces are known beyond the edge of the cloud.
WIDENING = 1.5

# ---- docs/decisions.md#residual-weight

# The residual counts as much as this many individuals a snapshot: the data term is a mean, and it
# is the better known the more individuals it is taken over. The weight stays within its range.
RESIDUAL_INDIVIDUALS, RESIDUAL_WEIGHTS = 400, (0.1, 10.0)

# Up to this many times the weight stays as it is; beyond, it grows with the root of their number,
# because the data term is a sum over times.
FEW_TIMES = 6

# ---- docs/decisions.md#ridge

# Snapshots closer than the first of these shares of the duration are pooled. They are separated
# again, share by share, as long as the motion between them exceeds that of random assignments.
POOLED_SHARES = (1 / 20, 1 / 80, 1 / 320, 0.0)

# Pairs of windows that are compared, individuals of each, and how many times the squared motion of
# random assignments counts as motion.
WINDOWS_COMPARED, WINDOW_INDIVIDUALS, MOTION_RATIO = 20, 200, 2.0

# Individuals of a window between which motion is measured, and the largest ridge.
MOTION_INDIVIDUALS, MOST_RIDGE = 500, 10.0

# Optimal transport finds about this many times the squared difference of the means.
TRANSPORT_NOISE = 3.0

# ---- docs/decisions.md#consistency

# Against the residual: both fall together, and predictions improve up to this weight.
CONSISTENCY_WEIGHT = 100.0

# The rate of the second stage and the part of it over which the rate rises, because the energy is
# good already.
CONSISTENCY_RATE, CONSISTENCY_WARMUP = 1e-2, 0.1

# Steps that carry individuals over a gap, and snapshots of a step's window; over many snapshots
# the window takes every second, third and so on, up to one in this many of all.
CONSISTENCY_MOVES, CONSISTENCY_TIMES, LONGEST_STRIDE = 6, 5, 50

# Steps of the second stage, as a share of the first's.
CONSISTENCY_SHARE = 0.4

# Individuals that are carried at each time: a share of a snapshot, in a range that keeps the
# distance between two clouds informative and its cost low.
CARRIED_SHARE, FEWEST_CARRIED, MOST_CARRIED = 1 / 8, 32, 192

# ---- docs/decisions.md#three-stages

# A first stage of fewer steps has not converged, and is not followed by another.
FEWEST_STEPS = 500

# ---- docs/decisions.md#settling

# Steps of the third stage, as a multiple of the second's: each costs about a fifth of one there.
SETTLING = 2

# The rate of the third stage, as a share of the second's: the curve is good already.
SETTLING_RATE = 0.3

# The curve is trained under a fixed energy only if the energy leaves no more than this share of
# its motion unexplained; otherwise the data describe the curve better than the energy does.
MOST_UNEXPLAINED = 0.2

# ---- docs/decisions.md#optimiser

# Steps of the first stage, after which the loss falls no further on the data sets tried.
STEPS = 2000

# Adam's rate, its last value as a share of the first, and the norm beyond which gradients are
# shortened.
LEARNING_RATE, FINAL_RATE, CLIP = 1e-2, 0.05, 10.0

# How often the loss is read and the best model kept: a hundredth of a fit costs nothing.
LOOKS = 100

# ---- docs/decisions.md#batch

# Individuals of a step's data term, and the fewest of each time among them.
BATCH, FEWEST_OF_A_TIME = 1024, 32

# ---- docs/decisions.md#potential

# Widths of the layers of V.
POTENTIAL_LAYERS = (64, 64, 64)

# The last layer starts small, so that a fit starts from an almost flat function whose gradients
# still reach every layer.
LAST_LAYER = 1e-2

# ---- docs/decisions.md#beta

# Where beta starts, in internal units: of the order of the motion.
START_BETA = 0.5

# ---- docs/decisions.md#anchor

# The largest mean square of the weak form's residuals, in units of their noise, with which its
# energy is taken over; with more, the averages are not explained.
ANCHOR_MISFIT = 2.5

# The largest distance between carried individuals and those seen next, in units of chance: the
# energy is then wrong by less than sampling noise. At least so many gaps and individuals are looked
# at, and so many random deals tell chance.
ANCHOR_APART, ANCHOR_GAPS, ANCHOR_INDIVIDUALS, ANCHOR_DEALS = 1.5, 5, 1500, 20

# The largest number of dimensions; beyond, the weak form is coarser than a network.
ANCHOR_DIMENSIONS = 5

# Individuals of a snapshot that show beforehand, in seconds, that averages are far from explained.
SCREENED = 300

# ---- docs/decisions.md#shrinkage

# Up to so many individuals of all times together the data may be too few for a network: some are
# held out and tell which share of the energy to believe. Of more, held-out scores did not differ.
FEW_INDIVIDUALS = 1000

# The share of each time's individuals that are held out.
HELD_OUT = 0.2

# The shares of the energy that are compared. The last one stands for standing still; it is not
# zero, so that V keeps its shape.
SHARES = (1.0, 0.75, 0.5, 0.25, 0.05)

# Individuals with fewer than a handful of others near them are not trained on: matching moves
# somebody to a place where one is seen, and V digs a well there. How far is not near: so many
# median absolute deviations of the logarithm of the distance.
HANDFUL, ISOLATED = 5, 6.0

# Time steps over a gap of individuals who were held out, and draws of their noise: they cost less
# than a second.
HELD_OUT_MOVES, HELD_OUT_DRAWS = 24, 4

# Steps of the first stage for few individuals: half as many overfit less and predict as well.
STEPS_OF_FEW = 1000

# ---- docs/decisions.md#interaction

# Widths of the layers of W and of kernels: functions of one distance need less.
PAIR_LAYERS = (64, 64)

# Degree of the series in which W' is tabulated: it interpolates to about 1e-4 of its range.
RADIAL_DEGREE = 40

# The table ends a little beyond the largest distance between individuals, of a sample of them.
REACH, REACH_INDIVIDUALS = 1.2, 500

# ---- docs/decisions.md#many-dimensions

# From this many dimensions on no kernel describes the density: likelihood would make each particle
# the mean of many individuals, and the cloud too narrow. Particles then stay at individuals, and
# likelihood is used for reporting only, on a small batch.
MANY_DIMENSIONS, MOST_FIXED_PARTICLES, BATCH_OF_FIXED = 20, 2000, 32

# ---- docs/decisions.md#without-diffusion

# A particle is the path of an individual, and up to this many are followed. The residual is exact
# at the particles, where no kernel blurs it.
MOST_PATHS, ALPHA_OF_PATHS = 1000, 0.0

# Paths are observed as they are, so fewer steps and individuals suffice.
STEPS_OF_PATHS, BATCH_OF_PATHS = 1500, 512

# A step looks at about this many places, at two stations at least.
PLACES_OF_PATHS, FEWEST_STATIONS = 2048, 2

# ---- docs/decisions.md#vector-kernels

# Fewer paths, because the kernel is evaluated at every pair of them.
MOST_PAIRED_PATHS = 250

# Angular harmonics and radial degree of a kernel in the plane, and the size of its coefficients at
# the start.
KERNEL_HARMONICS, KERNEL_DEGREE, KERNEL_COEFFICIENTS = (1, 3, 5), 24, 1e-2

# The pushes of many individuals largely cancel: each is larger than the speed they cause.
KERNEL_SPEED = 10.0

# ---- docs/decisions.md#vector-fields

# Functions behind a divergence-free field; one is enough in the plane.
STREAMS = 4

# ---- docs/decisions.md#growth

# Widths of the layers of the rate, the weight of its size, and that of masses against counts.
GROWTH_LAYERS, GROWTH_WEIGHT, GROWTH_MASSES = (64, 64), 0.1, 10.0

# Looks at the rate between two requested times of a simulation.
GROWTH_STEPS = 5

# ---- docs/decisions.md#splines

# Knots of a spline: two a snapshot bend as much as the data can show; nodes between two knots.
KNOTS_PER_SNAPSHOT, NODES_PER_KNOT = 2, 2

# ---- docs/decisions.md#simulation

# The least number of SDE steps between two requested times: up to 20, fewer in short gaps.
STEPS_PER_GAP, STEPS_PER_UNIT = 20, 100

# The most: of hundreds of short gaps each is given less.
MOST_STEPS, MOST_STEPS_PER_UNIT = 4000, 20_000

# Steps of a term that no step resolves: more of them cost time and change nothing.
MOST_UNRESOLVED = 300

# Step times the largest slope of the drift: stable, and accurate to second order.
STABLE = 0.3

# Steps of a solver of order five between two nodes of the curve.
TRANSPORT_STEPS = 2
