r"""V in the many directions beside the leading ones: one spring for each.

In such a direction z, $V = a z + b z^2$, so that mean and variance follow closed equations,

$$\dot m = -a - 2 b m, \qquad \dot v = -4 b v + 2\beta ,$$

whatever the distribution is. They are compared with the means and variances of all individuals of
every snapshot, for which one pass over the data is enough. Nobody is carried, and no draw of
individuals makes both sides of an equation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stitchflow._weak_form import constants


@dataclass(frozen=True)
class Averages:
    """The first four moments of every further direction at every snapshot.

    Arguments:
        times: in internal units, (k,).
        sizes: the number of equal weights that would average as well, (k,).
        mean: (k, r).
        variance: (k, r).
        skewness: of each direction within a snapshot, averaged over the snapshots, (r,).
        kurtosis: likewise, (r,).
    """

    times: np.ndarray
    sizes: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    skewness: np.ndarray
    kurtosis: np.ndarray

    @staticmethod
    def of(times: np.ndarray, sizes: np.ndarray, powers: np.ndarray) -> Averages:
        """From the averages of the first four powers of each direction, (k, 4, r)."""
        one, two, three, four = powers.transpose(1, 0, 2)
        factor = (sizes / np.maximum(sizes - 1.0, 0.5))[:, None]
        variance = np.maximum((two - one**2) * factor, 1e-12)
        third = three - 3.0 * one * two + 2.0 * one**3
        fourth = four - 4.0 * one * three + 6.0 * one**2 * two - 3.0 * one**4
        mean_of = lambda a: np.average(a, axis=0, weights=sizes)
        skewness = mean_of(third / variance**1.5)
        kurtosis = np.maximum(mean_of(fourth / variance**2), 1.0 + skewness**2 + 0.1)
        return Averages(times, sizes, one, variance, skewness, kurtosis)


@dataclass(frozen=True)
class SpringFit:
    """Springs for a given beta, and what they tell about beta.

    Arguments:
        c: the coefficients of z and z^2, (powers, 2, r).
        root: a factor of the covariance of a spring's coefficients, (r, 2 powers, 2 powers).
        by_log_beta: how far the coefficients move with log beta, (powers, 2, r).
        step: the step of log beta that all springs together ask for.
        information: the inverse of the square of its error.
        misfit: the mean square of the residuals.
    """

    c: np.ndarray
    root: np.ndarray
    by_log_beta: np.ndarray
    step: float
    information: float
    misfit: float


@dataclass(frozen=True)
class Springs:
    """The springs of a data set.

    Arguments:
        seen: the averages that they have to explain.
        some: some individuals of each snapshot in the further directions, (n, r) each.
        powers: the number of Legendre polynomials of time that multiply each coefficient.
    """

    seen: Averages
    some: tuple[np.ndarray, ...]
    powers: int = 1

    @property
    def count(self) -> int:
        """The number of directions."""
        return self.seen.mean.shape[1]

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """The duration of a step in every gap (k,), and the waves there (k, steps, powers)."""
        steps = 1 if self.powers == 1 else constants.SPRING_STEPS
        gaps = np.diff(self.seen.times)
        middles = self.seen.times[:-1, None] + gaps[:, None] * (np.arange(steps) + 0.5) / steps
        waves = np.polynomial.legendre.legvander(2.0 * middles - 1.0, self.powers - 1)
        return gaps / steps, waves

    def predicted(self, way: np.ndarray, log_beta: float) -> tuple[np.ndarray, ...]:
        """Mean and variance at every snapshot (k, r); decay and noise of every gap (k - 1, r).

        Arguments:
            way: the coefficients of z, those of z^2, the first mean and the logarithm of the first
                variance, (2 powers + 2, r).
            log_beta: the logarithm of beta.
        """
        a, b = way[: self.powers], way[self.powers : 2 * self.powers]
        m, v = way[-2], np.exp(way[-1])
        means, variances, decays, noises = [m], [v], [], []
        for h, waves in zip(*self._places, strict=True):
            decay, noise = np.ones_like(m), np.zeros_like(m)
            for wave in waves:
                stiff = np.clip(2.0 * (wave @ b) * h, *constants.SPRING_BOUNDS) / h
                stiff = np.where(np.abs(stiff) < 1e-9, 1e-9, stiff)
                e = np.exp(-stiff * h)
                m = e * m + (wave @ a) * np.expm1(-stiff * h) / stiff
                more = -np.exp(log_beta) * np.expm1(-2.0 * stiff * h) / stiff
                decay, noise, v = decay * e, e**2 * noise + more, e**2 * v + more
            means.append(m)
            variances.append(v)
            decays.append(decay)
            noises.append(noise)
        return np.stack(means), np.stack(variances), np.stack(decays), np.stack(noises)

    def fit(self, log_beta: float, same: bool, start: SpringFit | None = None) -> SpringFit:
        """The springs that explain the averages best.

        Arguments:
            log_beta: the logarithm of beta.
            same: whether the same individuals were seen at every time.
            start: a fit to start from.
        """
        return _Rounds(self, log_beta, same).run(start)

    def about_beta(self, beta: float, same: bool) -> tuple[float, float]:
        """The step of log beta that springs ask for, and its information."""
        found = self.fit(float(np.log(beta)), same)
        return found.step, found.information / max(found.misfit, 1.0)

    @property
    def centre(self) -> np.ndarray:
        """The mean of z and of z^2 over all individuals, (2 r,)."""
        seen = self.seen
        sizes = np.minimum(seen.sizes, constants.MOST_SEEN)
        values = np.concatenate([seen.mean, seen.variance + seen.mean**2], axis=1)
        return np.average(values, axis=0, weights=sizes)


class _Weights:
    """How averages fluctuate at an estimate: what makes residuals independent of unit variance."""

    def __init__(self, springs: Springs, predicted: tuple[np.ndarray, ...], same: bool):
        seen = springs.seen
        _, v, decay, noise = predicted
        n = seen.sizes[:, None]
        self.same, self.skew = same, seen.skewness * np.sqrt(v)
        self.mean = np.sqrt(v / n)
        self.variance = v * np.sqrt((seen.kurtosis - 1.0 - seen.skewness**2) / n)
        if same:
            # Those who were seen before move on: only the noise of the gap is new.
            self.decay = decay
            new = 4.0 * decay**2 * v[:-1] * noise + 2.0 * noise**2
            self.mean[1:], self.variance[1:] = np.sqrt(noise / n[1:]), np.sqrt(new / n[1:])

    def __call__(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Deviations of means and variances (k, r) as rows of unit variance, (2 k, r)."""
        first, second = mean.copy(), variance - self.skew * mean
        if self.same:
            first[1:] -= self.decay * mean[:-1]
            second[1:] = variance[1:] - self.decay**2 * variance[:-1]
        return np.concatenate([first / self.mean, second / self.variance])

    @property
    def logs(self) -> np.ndarray:
        """The logarithms of the variances that depend on beta, (2 k - 2, r)."""
        return 2.0 * np.log(np.concatenate([self.mean[1:], self.variance[1:]]))


class _Rounds:
    """Rounds of least squares for all springs at once."""

    def __init__(self, springs: Springs, log_beta: float, same: bool):
        self.springs, self.log_beta, self.same = springs, log_beta, same

    def _start(self) -> np.ndarray:
        """Springs at rest around the mean of all snapshots."""
        seen, p = self.springs.seen, self.springs.powers
        way = np.zeros((2 * p + 2, self.springs.count))
        way[-2], way[-1] = seen.mean[0], np.log(seen.variance[0])
        stiff = np.exp(self.log_beta) / seen.variance.mean(axis=0)
        way[p], way[0] = 0.5 * stiff, -stiff * seen.mean.mean(axis=0)
        return way

    def _look(self, way: np.ndarray) -> tuple[_Weights, np.ndarray]:
        predicted = self.springs.predicted(way, self.log_beta)
        weights = _Weights(self.springs, predicted, self.same)
        return weights, self._residual(weights, predicted)

    def _residual(self, weights: _Weights, predicted: tuple[np.ndarray, ...]) -> np.ndarray:
        seen = self.springs.seen
        return weights(seen.mean - predicted[0], seen.variance - predicted[1])

    def _linear(self, way: np.ndarray, weights: _Weights) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives by the way and log beta: of predictions, and of the logarithms.

        Their shapes are (r, u + 1, rows); by central differences, which are cheap here.
        """
        rows, logs, step = [], [], 1e-5
        for k in range(len(way) + 1):
            ends = []
            for sign in (1.0, -1.0):
                moved, log_beta = way.copy(), self.log_beta
                if k < len(way):
                    moved[k] += sign * step
                else:
                    log_beta += sign * step
                predicted = self.springs.predicted(moved, log_beta)
                own = _Weights(self.springs, predicted, self.same)
                ends.append((weights(predicted[0], predicted[1]), own.logs))
            rows.append((ends[0][0] - ends[1][0]) / (2.0 * step))
            logs.append((ends[0][1] - ends[1][1]) / (2.0 * step))
        order = lambda found: np.stack(found).transpose(2, 0, 1)
        return order(rows), order(logs) if self.same else 0.0 * order(logs)

    def _equations(
        self, way: np.ndarray, prior: np.ndarray
    ) -> tuple[_Weights, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The weights, residuals, derivatives, slope and curvature of the logarithm of the
        probability by the way and log beta; the last two are (r, u + 1) and (r, u + 1, u + 1)."""
        weights, residual = self._look(way)
        rows, logs = self._linear(way, weights)
        slope = np.einsum("rpn,nr->rp", rows, residual)
        curve = rows @ rows.swapaxes(1, 2)
        if self.same:
            k = len(self.springs.seen.times)
            excess = np.concatenate([residual[1:k], residual[k + 1 :]]) ** 2 - 1.0
            slope += 0.5 * np.einsum("rpn,nr->rp", logs, excess)
            curve += 0.5 * logs @ logs.swapaxes(1, 2)
        slope[:, :-1] -= prior * way.T
        curve[:, np.arange(len(prior)), np.arange(len(prior))] += prior + 1e-9
        return weights, residual, rows, slope, curve

    def run(self, start: SpringFit | None) -> SpringFit:
        """Rounds until nothing moves by more than a hundredth of its error."""
        p, r = self.springs.powers, self.springs.count
        way = self._start()
        if start is not None:
            way[: 2 * p] = start.c.transpose(1, 0, 2).reshape(2 * p, r)
        prior = np.full(2 * p + 2, constants.FLAT)
        for _ in range(constants.SPRING_ROUNDS):
            weights, _, _, slope, curve = self._equations(way, prior)
            move = np.linalg.solve(curve[:, :-1, :-1], slope[:, :-1, None])[..., 0]
            moved = (slope[:, :-1] * move).sum(axis=1)
            way = self._improved(way, move.T, weights, prior)
            prior = self._strengths(way, curve, prior)
            if moved.max() < constants.SPRING_STILL:
                break
        return self._found(way, prior)

    def _improved(
        self, way: np.ndarray, move: np.ndarray, weights: _Weights, prior: np.ndarray
    ) -> np.ndarray:
        """The way after a step, or after the part of it that makes residuals smaller."""
        move = np.clip(move, -constants.SPRING_STEP, constants.SPRING_STEP)

        def size(way: np.ndarray) -> np.ndarray:
            found = self._residual(weights, self.springs.predicted(way, self.log_beta))
            return (found**2).sum(axis=0) + prior @ way**2

        before = size(way)
        for _ in range(constants.MOST_HALVES):
            worse = ~(size(way + move) <= before * (1.0 + constants.SETTLED) + 1.0)
            if not worse.any():
                break
            move = np.where(worse, 0.5 * move, move)
        return way + move

    def _strengths(self, way: np.ndarray, curve: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """The precision of each wave after the first, one for all directions, by evidence."""
        p, out = self.springs.powers, prior.copy()
        inverse = np.linalg.inv(curve[:, :-1, :-1])
        for k in [*range(1, p), *range(p + 1, 2 * p)]:
            known = np.clip(1.0 - prior[k] * inverse[:, k, k], 0.0, 1.0).sum()
            found = known / max(float((way[k] ** 2).sum()), 1e-300)
            out[k] = np.clip(found, *constants.STRENGTHS)
        return out

    def _found(self, way: np.ndarray, prior: np.ndarray) -> SpringFit:
        """The springs at the end of the rounds, and what they tell about beta."""
        p, r = self.springs.powers, self.springs.count
        weights, residual, rows, slope, curve = self._equations(way, prior)
        inverse = np.linalg.inv(curve[:, :-1, :-1])
        pull = -(inverse @ curve[:, :-1, -1:])[..., 0]  # (r, u): how the way follows log beta
        score = float((slope[:, -1] + (pull * slope[:, :-1]).sum(axis=1)).sum())
        each = curve[:, -1, -1] + (pull * curve[:, :-1, -1]).sum(axis=1)
        information = float(np.maximum(each, 0.0).sum()) + 1e-12
        step = score / information
        if not self.same:
            along = rows[:, -1] + np.einsum("ru,run->rn", pull, rows[:, :-1])
            information = min(information, information**2 / self._spread(weights, along.T, way))
        shaped = lambda a: a[:, : 2 * p].reshape(r, 2, p).transpose(2, 1, 0)
        return SpringFit(
            shaped(way.T),
            np.linalg.cholesky(inverse)[:, : 2 * p, : 2 * p],
            shaped(pull),
            float(np.clip(step, -constants.MOST_LOG_STEP, constants.MOST_LOG_STEP)),
            information,
            float((residual**2).sum() / max(residual.size - 2 * (p + 1) * r, 1)),
        )

    def _spread(self, weights: _Weights, along: np.ndarray, way: np.ndarray) -> float:
        """The variance of the sum over all directions of residuals times `along`, (rows, r).

        Directions are no independent witnesses: an individual far out in one may be so in others.
        """
        means, variances, *_ = self.springs.predicted(way, self.log_beta)
        k, seen = len(means), self.springs.seen
        second = along[k:] / weights.variance
        first = along[:k] / weights.mean - second * weights.skew
        total = 0.0
        for i, z in enumerate(self.springs.some):
            off = z - means[i]
            own = off @ first[i] + (off**2 - variances[i]) @ second[i]
            total += float(own.var() / seen.sizes[i])
        return max(total, 1e-300)
