r"""The energy from its own averages over populations that are seen again whole.

For each function $f_a$ of a population, a term of its energy, the weak form reads

$$\langle f_a\rangle_{k+1} - \langle f_a\rangle_k = \int\Bigl(-\sum_b c_b\,
  \langle\nabla f_a\cdot\nabla f_b\rangle + \beta\,\langle\Delta f_a\rangle\Bigr)\,dt .$$

For individuals that are followed these are the normal equations of maximum likelihood, in which
identities do not occur: that members are not told apart costs nothing. Steps of the centres of
populations, on which pairs do not act, add how large the noise is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.interpolate import CubicSpline

from stitchflow._weak_form import constants
from stitchflow._weak_form.choices import Priors, other_ranges, shortest
from stitchflow._weak_form.drift_parts import Drift
from stitchflow._weak_form.estimate import Estimate
from stitchflow._weak_form.evidence import Equations
from stitchflow._weak_form.whole_populations import Flock, Populations, Sight, forces


class Clock:
    """How averages at the times of snapshots make integrals over time.

    Arguments:
        times: of the snapshots.
        blocks: into how many spans of time noise is divided to be measured.
    """

    def __init__(self, times: np.ndarray, blocks: int):
        gaps, count = np.diff(times), len(times)
        # The interpolating cubic spline: a trapezoid errs where populations relax at the start.
        spline = CubicSpline(times, np.eye(count)).antiderivative()
        by_gap = np.diff(spline(times), axis=0)
        self.edges = np.unique(np.linspace(0, count - 1, blocks + 1).round().astype(int))
        self.by_block = np.add.reduceat(by_gap, self.edges[:-1], axis=0)
        self.whole = by_gap.sum(axis=0)
        self.gaps, self.lags = gaps, min(constants.LAGS, count - 1)
        self.first = np.arange(count - self.lags)  # snapshots whose steps are looked at
        self.block_of = np.searchsorted(self.edges, self.first, "right") - 1
        self.ahead = np.stack([self._ahead(times[k : k + self.lags + 1]) for k in self.first])

    @staticmethod
    def _ahead(times: np.ndarray) -> np.ndarray:
        """The mean over the first gap of a function that is known at times from its start on."""
        u = (times - times[0]) / (times[1] - times[0])
        powers = np.arange(len(u))
        return np.linalg.solve(u[None, :] ** powers[:, None], 1.0 / (powers + 1.0))

    @property
    def blocks(self) -> int:
        """The number of spans of time."""
        return len(self.by_block)


@dataclass(frozen=True)
class Steps:
    r"""Squared steps of the centres of populations, which tell beta.

    With m the centre of N members and $u = \langle\nabla V\rangle$ their mean slope, by Dynkin's
    formula for $|m_t - m_0|^2$,

    $$E|m_1 - m_0|^2 = \int\Bigl(\tfrac{2\beta d}{N} - 2\,E\,(m_t - m_0)\cdot u_t\Bigr)\,dt ,$$

    which is linear in V and beta. The integral is that of the polynomial through the next
    snapshots.

    Arguments:
        centres: at all times, (times, populations, d).
        sizes: the number of members, (populations,).
        clock: the rule in time.
    """

    centres: np.ndarray
    sizes: np.ndarray
    clock: Clock

    @cached_property
    def squares(self) -> np.ndarray:
        """N times the squared step per unit of time, (steps, populations)."""
        k = self.clock.first
        moved = ((self.centres[k + 1] - self.centres[k]) ** 2).sum(axis=2)
        return moved * self.sizes / self.clock.gaps[k, None]

    def _apart(self, lag: int) -> np.ndarray:
        """By what mean slopes are multiplied that are seen so many snapshots later."""
        k, ahead = self.clock.first, self.clock.ahead[:, lag]
        return 2.0 * ahead[:, None, None] * (self.centres[k + lag] - self.centres[k])

    @cached_property
    def pulls(self) -> np.ndarray:
        """The same summed over lags, at the time of the slope, (times, populations, d)."""
        out = np.zeros(self.centres.shape)
        for lag in range(1, self.clock.lags + 1):
            out[self.clock.first + lag] += self._apart(lag)
        return out

    def left(self, slopes: np.ndarray, beta: float) -> np.ndarray:
        """What an estimate does not explain, (blocks, populations).

        Arguments:
            slopes: the sum of slopes over each population, (times, populations, d).
            beta: the noise.
        """
        each = self.squares - 2.0 * beta * self.centres.shape[2]
        for lag in range(1, self.clock.lags + 1):
            each = each + (self._apart(lag) * slopes[self.clock.first + lag]).sum(axis=2)
        out = np.zeros((self.clock.blocks, each.shape[1]))
        np.add.at(out, self.clock.block_of, each)
        return out


class Action:
    """The equations of populations that are followed, and their noise.

    Arguments:
        crowd: the populations.
        drift: the functions of V and W.
    """

    def __init__(self, crowd: Populations, drift: Drift):
        self.crowd, self.drift = crowd, drift
        self.clock = Clock(crowd.times, crowd.spans)
        self.steps = Steps(crowd.centres, crowd.sizes, self.clock)
        self.share = crowd.witnesses / len(crowd.sizes)
        self.n = int(crowd.sizes.sum())
        self._gather()

    def _gather(self) -> None:
        """One pass over all individuals: the sums of which the equations are made."""
        f = self.drift.count
        self.squares, self.laplacians = np.zeros((f, f)), np.zeros(f)
        self.change, self.by_step = np.zeros(f), np.zeros(f)
        for flock in self.crowd.flocks():
            pulls = np.repeat(self.steps.pulls[:, self._which(flock)], self._sizes(flock), axis=1)
            for k, t in enumerate(self.crowd.times):
                x = self.crowd.x[k, flock.rows]
                flat = forces(self.drift, flock, x, t).reshape(-1, f)
                self.by_step += pulls[k].ravel() @ flat / self.n
                self.squares += self.clock.whole[k] / self.n * (flat.T @ flat)
                sight = Sight(self.drift, flock, x)
                self.laplacians += self.clock.whole[k] / self.n * sight.laplacians.sum(axis=0)
                if k in (0, len(self.crowd.times) - 1):
                    self.change += (1.0 if k else -1.0) / self.n * sight.values.sum(axis=0)

    def _which(self, flock: Flock) -> slice:
        """The populations of a flock among all."""
        first = int(np.searchsorted(self.crowd.starts, flock.rows.start))
        return slice(first, first + len(flock.starts))

    def _sizes(self, flock: Flock) -> np.ndarray:
        return self.crowd.sizes[self._which(flock)]

    @property
    def beta(self) -> float:
        """The noise as if centres moved by nothing else, which is where rounds start."""
        dim = self.crowd.x.shape[2]
        return float(self.steps.squares.sum() / (2.0 * dim * self._counted))

    @property
    def _counted(self) -> int:
        return self.steps.squares.size

    def _rows(self, beta: float) -> tuple[np.ndarray, np.ndarray]:
        """The equations, linear in the coefficients and log beta, and what they have to be."""
        f, dim = self.drift.count, self.crowd.x.shape[2]
        a, y = np.zeros((f + 1, f + 1)), np.zeros(f + 1)
        a[:f, :f], a[:f, f] = self.squares, -beta * self.laplacians
        a[f, :f], a[f, f] = self.by_step, -2.0 * beta * dim * self._counted / self.n
        y[:f] = beta * self.laplacians - self.change
        y[f] = 2.0 * beta * dim * self._counted / self.n - self.steps.squares.sum() / self.n
        return a, y

    def left(self, c: np.ndarray, beta: float) -> np.ndarray:
        """What an estimate leaves of each row, for some populations, (blocks, populations, f + 1).

        Arguments:
            c: the coefficients.
            beta: the noise.
        """
        parts, edges = [], self.clock.edges
        for flock in self.crowd.flocks(self.share):
            which = self._which(flock)
            slopes = np.zeros((len(self.crowd.times), len(flock.starts), self.crowd.x.shape[2]))
            out = np.zeros((self.clock.blocks, len(flock.starts), self.drift.count + 1))
            for k in range(len(self.crowd.times)):
                sight = Sight(self.drift, flock, self.crowd.x[k, flock.rows])
                slope = sight.slope(c)
                slopes[k] = flock.total(slope)
                row = sight.along(slope) - beta * sight.laplacians
                for b in np.flatnonzero(np.abs(self.clock.by_block[:, k]) > constants.FAINT):
                    out[b, :, :-1] += self.clock.by_block[b, k] * row
                if k in edges:
                    values, b = sight.values, int(np.searchsorted(edges, k))
                    if b > 0:
                        out[b - 1, :, :-1] += values
                    if b < len(out):
                        out[b, :, :-1] -= values
            own = Steps(self.crowd.centres[:, which], self.crowd.sizes[which], self.clock)
            # Pairs do not move a centre, and their forces cancel in the sum but for rounding.
            out[:, :, -1] = own.left(slopes, beta)
            parts.append(out)
        return np.concatenate(parts, axis=1)

    def _noise(self, left: np.ndarray) -> np.ndarray:
        """The covariance of the rows from what an estimate leaves of populations and spans.

        What it leaves of all populations alike is an error of the estimate, and no noise.
        """
        flat = (left - left.mean(axis=1, keepdims=True)).reshape(-1, left.shape[2]) / self.n
        samples, rows = flat.shape
        # An inverse of a covariance of few samples is too large by this on average (Hartlap).
        spare = max(1.0 - (rows + 2.0) / samples, constants.LEAST_SPARE)
        return flat.T @ flat * (len(self.crowd.sizes) / left.shape[1] / spare)

    def equations(self, beta: float, left: np.ndarray) -> Equations:
        """Whitened rows, which are linear in the coefficients.

        Arguments:
            beta: the noise about which log beta is counted.
            left: what an estimate leaves of the rows, which tells their noise.
        """
        noise = self._noise(left)
        scale = 1.0 / np.sqrt(np.maximum(np.diag(noise), 1e-300))
        sizes, vectors = np.linalg.eigh(noise * scale * scale[:, None])
        kept = sizes > constants.TOLD_APART * sizes[-1]  # functions may be alike
        white = (vectors[:, kept] / np.sqrt(sizes[kept])).T * scale
        a, y = self._rows(beta)
        found = Equations(self.drift.count)
        found.add(white @ a, white @ y, np.zeros(len(white)), np.ones(len(white)))
        return found

    @staticmethod
    def misfit(left: np.ndarray) -> float:
        """The mean square of what an estimate leaves in each span of time, in units of its noise.

        The equations themselves sum over all times and are solved. That each span by itself agrees
        with them is no consequence of solving, so that a force that changes in time shows here.
        """
        noise = (left**2).sum(axis=1)
        return float((left.sum(axis=1) ** 2 / np.maximum(noise, 1e-300)).mean())


def estimate(
    action: Action,
    priors: Priors,
    beta: float | None,
    tell: Callable[[Estimate], None] = lambda _: None,
) -> Estimate:
    """The energy of populations that are followed.

    The noise of a round is what the round before has left of each population, that of the first
    what is left where nothing drives them.

    Arguments:
        action: the equations.
        priors: the prior for every range of W.
        beta: the noise where it is known; None where it is learned.
        tell: is given the estimate after every round.
    """
    learn = beta is None
    now = Estimate(np.zeros(action.drift.count), action.beta if beta is None else beta)
    left = action.left(now.c, now.beta)
    for count in range(1, constants.ACTION_ROUNDS + 1):
        equations = action.equations(now.beta, left)
        span, each = shortest(equations, priors, learn, {}, False)
        posterior = each[span]
        change = posterior.mean - now.c
        moved = float(change @ equations.squares[:-1, :-1] @ change)
        still = bool(moved < constants.STILL * max(posterior.known, 1.0))
        new = now.beta * float(np.exp(posterior.step))
        left = action.left(posterior.mean, new)
        now = Estimate(
            posterior.mean,
            new,
            posterior,
            span,
            count,
            still,
            action.misfit(left),
            equations.rows,
            True,
            other_ranges(span, each),
        )
        tell(now)
        if still:
            break
    return now
