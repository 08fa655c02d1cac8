"""Coefficients and the strengths of their priors, from accumulated least-squares equations."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Block


@dataclass
class Equations:
    r"""Sums over whitened residuals, linear in the coefficients c and a step of log beta.

    A row says $y \approx a \cdot (c, \delta)$ with unit variance. Where the noise comes from beta,
    the variance is $1 + s(e^\delta - 1)$ with the row's share s, so that its size tells beta.

    Arguments:
        count: the number of coefficients.
    """

    count: int
    squares: np.ndarray = field(init=False)
    products: np.ndarray = field(init=False)
    total: float = 0.0
    shared_squares: np.ndarray = field(init=False)
    shared_products: np.ndarray = field(init=False)
    shared_total: float = 0.0
    shares: float = 0.0
    expected: float = 0.0
    rows: int = 0
    log_volume: float = 0.0
    errors: np.ndarray | None = None

    def __post_init__(self) -> None:
        f = self.count + 1
        self.squares, self.shared_squares = np.zeros((f, f)), np.zeros((f, f))
        self.products, self.shared_products = np.zeros(f), np.zeros(f)

    def add(self, a: np.ndarray, y: np.ndarray, shares: np.ndarray, sizes: np.ndarray) -> None:
        """Add rows.

        Arguments:
            a: (rows, coefficients + 1).
            y: (rows,).
            shares: the share of each row's variance that comes from beta, (rows,).
            sizes: the expected square of each row where the model holds, (rows,).
        """
        self.squares += a.T @ a
        self.products += a.T @ y
        self.total += float(y @ y)
        if shares.any():
            shared = a * shares[:, None]
            self.shared_squares += shared.T @ a
            self.shared_products += shared.T @ y
            self.shared_total += float(y @ (shares * y))
        self.shares += float(shares.sum())
        self.expected += float(shares @ sizes)
        self.rows += len(y)

    def add_about_beta(self, step: float, information: float) -> None:
        """Add what is known about log beta from elsewhere: a step, and its information."""
        row = np.zeros((1, self.count + 1))
        row[0, -1] = np.sqrt(information)
        self.add(row, row[:, -1] * step, np.zeros(1), np.ones(1))

    def subtract(self, by_residual: np.ndarray, by_design: np.ndarray, c: np.ndarray) -> None:
        """Take away what errors are expected to contribute.

        Directions in which the design is hardly more than its error are left without information.

        Arguments:
            by_residual: the expected product of the errors of design and residual, (f + 1,).
            by_design: that of the design with itself, (f + 1, f + 1).
            c: the coefficients at which the equations were made, (f,).
        """
        row, before = np.append(c, 0.0), self.squares.copy()
        root = np.linalg.cholesky(before + constants.JITTER * np.diag(np.diag(before) + 1e-300))
        half = solve_triangular(root, by_design, lower=True)
        sizes, vectors = np.linalg.eigh(solve_triangular(root, half.T, lower=True))
        kept = root @ vectors * np.sqrt(np.clip(1.0 - sizes, constants.LEAST_SHARE, 1.0))
        self.squares = kept @ kept.T
        self.errors = root @ vectors * np.sqrt(np.clip(sizes, 0.0, 1.0))
        slope = self.products - before @ row - by_residual
        left = self.total - 2 * row @ self.products + row @ before @ row
        self.products = slope + self.squares @ row
        self.total = float(left + 2 * row @ self.products - row @ self.squares @ row)


@dataclass(frozen=True)
class Posterior:
    """The solution of `Equations` under a prior.

    Arguments:
        mean: the coefficients, (f,).
        step: the step of log beta.
        root: a factor of the covariance of coefficients and log beta, (f + 1, u + 1).
        precisions: the precision of each block.
        evidence: the logarithm of the probability of the data.
        known: how many numbers the data determine.
        pulled: how far the prior has moved coefficients and log beta towards zero, (f + 1,).
        cost: the sum of squares that the prior has charged for the coefficients.
    """

    mean: np.ndarray
    step: float
    root: np.ndarray
    precisions: np.ndarray
    evidence: float
    known: float
    pulled: np.ndarray
    cost: float


def log_volume(equations: Equations, blocks: list[Block], precisions: np.ndarray) -> float:
    """The logarithm of the volume of coefficients that explain the equations as well.

    Arguments:
        equations: the accumulated rows.
        blocks: the prior.
        precisions: the precision of each block.
    """
    factor = np.concatenate([block.factor for block in blocks], axis=1)
    prior = np.repeat(precisions, [block.factor.shape[1] for block in blocks])
    squares = factor.T @ equations.squares[:-1, :-1] @ factor
    return -float(np.log(np.diag(_factored(squares, prior)[0])).sum())


def _factored(squares: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, bool]:
    """The Cholesky factor of squares plus prior; functions may be alike to within rounding."""
    for power in range(0, 8, 2):
        rounding = constants.ROUNDING * 10.0**power * np.diag(squares)
        try:
            return cho_factor(squares + np.diag(prior + rounding), lower=True)
        except np.linalg.LinAlgError:
            continue
    raise np.linalg.LinAlgError("the equations have no unique solution")


def solve(
    equations: Equations,
    blocks: list[Block],
    learn_beta: bool,
    start: np.ndarray | None = None,
    fixed: bool = False,
) -> Posterior:
    """The most probable coefficients, with the strength of each block by evidence (MacKay).

    Arguments:
        equations: the accumulated rows.
        blocks: the prior.
        learn_beta: whether beta is free.
        start: precisions to start from; None starts at one.
        fixed: whether they stay as they are.
    """
    f, learned = equations.count, learn_beta
    factor = np.concatenate([block.factor for block in blocks], axis=1)
    sizes = np.array([block.factor.shape[1] for block in blocks])
    ends = np.cumsum(sizes)
    sums = lambda values: np.add.reduceat(values, ends - sizes)
    free = np.array([not block.flat for block in blocks])
    squares = factor.T @ equations.squares[:f, :f] @ factor
    shared_squares = factor.T @ equations.shared_squares[:f, :f] @ factor
    beta_products, products = factor.T @ equations.squares[:f, f], factor.T @ equations.products[:f]
    share = equations.shares / max(equations.rows, 1)
    alpha = np.where(free, 1.0, constants.FLAT) if start is None else start
    step, evidence, information = 0.0, -np.inf, constants.BETA_PRECISION
    u, prior = np.zeros(len(beta_products)), np.repeat(alpha, sizes)
    for _ in range(constants.MOST_STRENGTHS):
        scale = 1.0 / (1.0 + share * np.expm1(step))
        prior = np.repeat(alpha, sizes)
        whole = _factored(scale * squares, prior)
        u = cho_solve(whole, scale * (products - step * beta_products))
        inverse = cho_solve(whole, np.eye(len(u)))
        known = sizes - alpha * sums(np.diag(inverse))
        row = np.append(factor @ u, step)
        left = equations.total - 2 * row @ equations.products + row @ equations.squares @ row
        before, evidence = (
            evidence,
            -0.5
            * float(
                scale * left
                + prior @ (u * u)
                + constants.BETA_PRECISION * step**2
                + 2 * np.log(np.diag(whole[0])).sum()
                - np.log(prior).sum()
                + equations.log_volume
                + equations.shares * step
            ),
        )
        if learned:
            # How far the mean of the residuals and, where beta is the noise, their size tell beta.
            score = scale * float(equations.products[f] - equations.squares[f] @ row)
            pull = scale * beta_products
            information = scale * equations.squares[f, f] - pull @ inverse @ pull
            if equations.shares:
                size = equations.shared_total - 2 * row @ equations.shared_products
                size += row @ equations.shared_squares @ row
                used = scale * float((inverse * shared_squares).sum())
                spare = max(equations.expected - used, 1.0)
                score += 0.5 * (scale * size - spare)
                information += 0.5 * spare
            information = max(information, 0.0) + constants.BETA_PRECISION
            move = (score - constants.BETA_PRECISION * step) / information
            move = float(np.clip(move, -constants.MOST_LOG_STEP, constants.MOST_LOG_STEP))
            step = float(
                np.clip(step + move, -constants.MOST_LOG_CHANGE, constants.MOST_LOG_CHANGE)
            )
        if abs(evidence - before) < constants.SETTLED:
            break
        if not fixed:
            found = known / np.maximum(sums(u * u), 1e-300)
            alpha = np.where(free, np.clip(found, *constants.STRENGTHS), alpha)
    root = np.zeros((f + 1, len(u) + 1))
    root[:f, :-1] = solve_triangular(whole[0], factor.T, lower=True).T
    if learned:
        # What is known about c depends on beta: c moves by this much with log beta.
        root[:f, -1] = -factor @ (inverse @ (scale * beta_products)) / np.sqrt(information)
        root[f, -1] = 1.0 / np.sqrt(information)
    if equations.errors is not None:
        # Products of errors have no mean after the correction, but they still fluctuate (Bekker).
        root = np.concatenate([root, root @ (root.T @ equations.errors)], axis=1)
    slope, by_beta = prior * u, scale * beta_products
    log_beta = -float(by_beta @ inverse @ slope) / information if learned else 0.0
    pulled = np.append(factor @ (inverse @ (slope - by_beta * log_beta)), log_beta)
    return Posterior(
        factor @ u, step, root, alpha, evidence, float(known.sum()), pulled, float(slope @ u)
    )
