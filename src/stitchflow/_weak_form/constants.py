"""Every number that the weak form chooses, with its reason."""

# Added to kernel matrices, relative to their diagonal, so that they can be factored.
JITTER = 1e-6

# A step of the carrying solver times the derivative of the drift. The midpoint rule is then wrong
# by about one percent of the displacement, and less for most individuals.
STEP = 0.5
STEEP_SHARE = 0.95  # the quantile of that derivative over individuals: few are steeper
# The largest number of steps, a power of two. A few individuals, who take little time, may make
# more of them: as many as give this number of steps of all individuals together.
MOST_STEPS, FINEST_STEPS, INDIVIDUAL_STEPS = 32, 512, 32_768

# Individuals per dimension and step from which the noise is balanced to an exact covariance.
BALANCED = 5

# Evidence. The precision of a flat prior and of log beta, whose prior is wide but proper.
FLAT = 1e-6
BETA_PRECISION = 1e-2
STRENGTHS = (1e-8, 1e10)  # bounds of a block's precision
MOST_STRENGTHS = 60  # updates of the strengths in one round
SETTLED = 0.01  # nats below which they have settled
MOST_LOG_STEP = 1.0  # of log beta in one update
MOST_LOG_CHANGE = 2.5  # of log beta in one round, beyond which the linearisation says little

# Averages whose variance is below this share of their usual variance, after what other averages
# explain, are not used: results hardly change from 1e-5 to 1e-2 (beta by less than its error).
INDEPENDENT = 1e-3

# Snapshots of fewer individuals than POOL_BELOW are pooled to windows of about POOLED: the
# covariance of some twenty averages then has several individuals for each of its numbers.
POOL_BELOW = 100
POOLED = 250
FEWEST_WINDOWS = 2

# Pairs of individuals over all snapshots beyond which only every second, third, ... gap is used.
MOST_PAIRS = 2_500_000

# Rounds. One is the last if it moves predictions by less than STILL of the variance of what the
# data determine, and log beta by less than its root in errors.
STILL = 0.05
MOST_HALVES = 6  # of a step that makes predictions worse
FAR = 1e3  # internal units, beyond which an individual is lost
NATS = 3.0  # of evidence that are no reason for a longer range, or for the same individuals
NEGLIGIBLE = 1e-3  # probability of a range of W below which it adds nothing to errors
MOST_ROUNDS = 12
FULL_ROUNDS = 5  # rounds that go all the way
UNEXPLAINED = 10.0  # mean square of residuals from which a fit has failed
MISFIT = 2.5  # mean square of residuals beyond which the same individuals cannot be meant

# Bases, in units of the data's length. The widths of the bumps of V by dimension (1, 2, 3 and
# more): each halves the one before, and finer ones cost more than they explain.
WIDTHS = {1: (2.0, 1.0, 0.5, 0.25, 0.125), 2: (2.0, 1.0, 0.5, 0.25), 3: (2.0, 1.0)}
MOST_BUMPS = 600
AVERAGES = 1 / 3  # averages per number of a snapshot
# Where every snapshot is a draw of its own: averages per individual, and how many of them per
# dimension make the first estimate, whose noise then tells how narrow averages may be.
DRAWN_AVERAGES, FIRST_DRAWN = 1 / 10, 12
TESTS_PER_KNOWN = 2.0  # averages of a gap for each number that the first estimate determines
MOST_POINTS = 20_000  # individuals near which bumps are placed
PAIR_WIDTHS = (0.6, 0.3)
# A W that falls over more than about the width of the population cannot be told from V.
RANGES = (0.35, 0.5, 0.7, 1.0, 1.4)
KNOTS = 0.5  # the distance of knots, as a share of the narrowest width
MOST_KNOTS = 120
REACH, FARTHEST = 1.1, 0.999  # splines end at this factor of this quantile of the pair distances
TIME_POWERS = 3

START_BETA = 0.1
# The chance that averages of independent draws change by as little as is seen, below which the
# same individuals were seen, whatever moves them.
PLAINLY = 1e-3
TESTS_PER_NOISE = 2.0  # the width of test functions, in standard deviations of the noise of a gap
POPULATION = 1000  # individuals that stand for the marginal in the velocity
ROUNDING = 1e-10  # of the diagonal of the equations, which is added so that they can be factored
ONE_POPULATION = 0.6  # of a knot's distance, below which copies share the push of one population

# A start for long gaps: individuals of each snapshot that are matched, and windows in each gap.
MOST_LINES, LINE_WINDOWS = 300, 8

# Rest: individuals and dimensions that are looked at, how often individuals are dealt out anew, and
# the share of deals that have to differ more for chance to be an explanation. Three in a hundred
# populations at rest are then taken for moving ones.
REST_INDIVIDUALS, REST_DIMENSIONS, REST_DEALS, REST_CHANCE = 20_000, 10, 400, 0.01

# The standard deviation of the logarithm of the common factor of V, W and beta at rest: it is known
# to orders of magnitude only, from how far apart the snapshots are.
UNKNOWN_FACTOR = 3.0

# Standard errors on each side of a 90 % interval, and the logarithm of a factor that is no limit.
NINETY, UNLIMITED = 1.645, 20.0

# Mean square of residuals below which draws would fluctuate more: the same individuals are tried.
TOO_QUIET = 0.7

# The widest test functions for draws, and the factor from one width that is tried to the next.
WIDEST_TEST, TEST_LADDER = 2.0, 0.9

# The share of a direction's squared design that is kept at least where nearly all of it is error,
# so that steps stay bounded.
LEAST_SHARE = 0.3

# Rounds after which the choice of averages is kept and strengths move by half of their way.
FREE_ROUNDS = 4

# Individuals of a window that are looked at.
MOST_SEEN = 2500

# The share of the covariance of carried individuals that is added to that of those who were seen.
RARE = 0.25

# The difference in the logarithm of a common factor by which volumes are compared.
RAY_STEP = 0.1

# A field that turns: its narrowest bumps in the plane, and the number of its bumps in space.
TURNING_FINEST, TURNING_BUMPS = 0.5, 60

# The narrowest bumps of what differs between conditions: a difference is told less sharply than V.
DEVIATION_FINEST = 1.0

# Bumps of the growth rate, all of the largest width of V: growth changes slowly in space.
GROWTH_BUMPS = 60

# A W that is not radial, by dimension: the factor of the widths, the number of bumps, and how far
# they go, in ranges of the longest envelope. Pairs are summed in parts of bounded memory.
DISPLACEMENT_WIDER = {1: 1.0, 2: 1.0, 3: 2.0}
MOST_DISPLACEMENT_BUMPS, DISPLACEMENT_REACH, PAIRS_AT_ONCE = 200, 2.0, 20_000

# The share of averages that counts as not determined, at least, where the misfit is measured.
LEAST_FREE = 0.3

# In three and more dimensions: the most bumps of V, and the width of the test functions for draws.
SPACE_BUMPS, SPACE_TEST = 300, 1.0

# Springs: steps of a gap where coefficients vary in time, bounds of the stiffness times a step, the
# largest number of rounds, the squared move in errors that ends them, and the largest move.
SPRING_STEPS, SPRING_BOUNDS, SPRING_ROUNDS, SPRING_STILL, SPRING_STEP = (
    4,
    (-3.0, 30.0),
    40,
    1e-3,
    5.0,
)

# Dimensions up to which all directions are alike, and how many lead beyond; individuals that are
# read at once; and those of each snapshot that tell how directions vary together.
MOST_LEAD, CHUNK, WITNESSES = 5, 50_000, 1000
NO_NOISE = 1e-9  # what beta is for springs without noise

# The step, in internal units, by which the second derivatives of smooth functions are taken.
HESSIAN_STEP = 1e-4

# Individuals that are followed: the first damping of a step that would lose probability, the
# largest one, the number of rounds, and the steps of a gap below which one round sees nearly all.
LEAST_DAMPING, MOST_DAMPING, FOLLOWED_ROUNDS, SHORT_STEPS = 0.1, 1e4, 40, 2

# Equilibrium of the last snapshot: uniform points for each individual, whose chance then adds a
# tenth to that of the individuals; rounds of logistic regression; the largest logit, beyond which
# a point has no weight; and the noises that are tried, in units of the first one.
UNIFORM, REST_ROUNDS, MOST_LOGIT = 10, 20, 30.0
REST_BETAS = tuple(10.0 ** (k / 4) for k in range(-8, 9))

# Models that are compared term by term: the most bumps of their V, so that a fit takes seconds.
COMPARED_BUMPS = 60
# A design is told from one of chance where its square is so many times what chance contributes.
CHANCE = 2.0

# Populations that are followed as wholes. Their covariance is that of populations in spans of
# time; fewer than FEWEST_SAMPLES of these do not tell the noise of some hundred averages (200 gave
# errors of V several times too small), and four snapshots are what the rule in time needs. In more
# than three dimensions a few bumps describe V too roughly for exact equations.
FEWEST_SAMPLES, POPULATION_TIMES, POPULATION_DIMENSIONS = 1000, 4, 3
# The squared step of a centre over a gap, as a share of that between unrelated draws, from which
# the polynomial through four snapshots integrates its memory to less than one percent.
FOLLOWED, LAGS = 0.6, 3
# Individuals at once: their forces are (individuals, d, functions), some tens of megabytes.
POPULATION_CHUNK = 4000
# Noise: spans of time, gaps in each at least, so that neighbouring spans hardly share errors of the
# rule in time, and the most populations times spans that are looked at.
NOISE_BLOCKS, BLOCK_GAPS, NOISE_SAMPLES = 20, 4, 8000
LEAST_SPARE = 0.2  # of the samples of a covariance that its inverse is not made of
# Populations and spans for each function, at least: bumps, splines of the distance from the middle,
# and those of W share the functions in equal parts.
SAMPLES_PER_FUNCTION, KINDS_OF_FUNCTIONS = 20, 3
FAINT = 1e-7  # a weight in time that is not worth a sum
# Directions of the noise, relative to the largest one, in which functions are not told apart.
TOLD_APART = 1e-8
ACTION_ROUNDS = 4  # three mostly suffice; each looks once more at those whose noise is measured
# Bases for them: widths of V that is not round and of W, in the data's length, the ranges of W, and
# the most functions. Whole populations tell V from W, so that W may reach as far as pairs do.
POPULATION_WIDTHS, POPULATION_BUMPS = (2.0, 1.0, 0.5), 200
CORE = 0.99  # the share of individuals, nearest to the middle, near whom bumps are placed
POPULATION_PAIR_WIDTHS, POPULATION_RANGES = (0.6, 0.3, 0.15), (1.4, 2.8, 5.6)
# V as a function of the distance from the middle: widths, and the factor by which its envelope is
# shorter than where splines end, so that V goes over into its powers beyond all individuals.
ROUND_WIDTHS, ROUND_FALL = (1.0, 0.5, 0.25, 0.125), 2.5
TOUCHING = 1e-9  # added to distances, whose direction is unknown at zero
