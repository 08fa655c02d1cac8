"""A W that depends on the direction: bumps in the space of displacements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Block, Bumps
from stitchflow._weak_form.drift_parts import PairPart, Ranged
from stitchflow._weak_form.neighbours import Geometry


@dataclass(frozen=True)
class DisplacementPush(PairPart):
    r"""The push of $W(z) = \sum_j c_j\,(b_j(z) + b_j(-z))$ with Gaussian bumps $b_j$.

    Arguments:
        bumps: the bumps, with centres in one half of the space.
    """

    bumps: Bumps
    kind = "displacement"

    @staticmethod
    def of(z: np.ndarray, widths: tuple[float, ...], farthest: float) -> DisplacementPush:
        """Bumps near displacements `z`, (n, d), up to a distance."""
        d = z.shape[1]
        z = z[(z**2).sum(axis=1) <= farthest**2]
        z = np.where(_leads(z)[:, None], z, -z)
        wide = tuple(width * constants.DISPLACEMENT_WIDER[d] for width in widths)
        bumps = Bumps.for_points(z, wide, constants.MOST_DISPLACEMENT_BUMPS)
        kept = _leads(bumps.centres)
        return DisplacementPush(Bumps(bumps.centres[kept], bumps.widths[kept]))

    @property
    def count(self) -> int:
        return len(self.bumps.widths)

    @property
    def step(self) -> float:
        return constants.KNOTS * float(self.bumps.widths.min())

    def _all(self, c: np.ndarray) -> np.ndarray:
        return np.concatenate([np.zeros(self.bumps.powers), c])

    def values(self, z: np.ndarray) -> np.ndarray:
        """All functions at displacements, (m, count)."""
        return self.bumps.bells(z) + self.bumps.bells(-z)

    def force(self, near: Geometry, c: np.ndarray) -> np.ndarray:
        z, c = near.r[:, None] * near.e, self._all(c)
        return self.bumps.slope(z, c) - self.bumps.slope(-z, c)

    def each_push(self, near: Geometry) -> np.ndarray:
        pairs, d, powers = near.pairs, near.e.shape[1], self.bumps.powers
        out = np.zeros((d, near.n, self.count))
        for first in range(0, len(near.r), constants.PAIRS_AT_ONCE):
            some = slice(first, first + constants.PAIRS_AT_ONCE)
            z = near.r[some, None] * near.e[some]
            slopes = (self.bumps.slopes(z) - self.bumps.slopes(-z))[:, :, powers:]
            k = np.arange(len(z))
            shares = np.concatenate([pairs.on_first[some], -pairs.on_second[some]])
            who = np.concatenate([pairs.first[some], pairs.second[some]])
            gather = csr_array((shares, (who, np.concatenate([k, k]))), shape=(near.n, len(z)))
            for a in range(d):
                out[a] += gather @ slopes[:, a]
        return out.transpose(1, 0, 2)

    def over_pairs(self, near: Geometry, covectors: np.ndarray) -> np.ndarray:
        z, a = near.r[:, None] * near.e, covectors.T[:, None, :]
        return (self.bumps.gather(a, z) - self.bumps.gather(a, -z))[0, self.bumps.powers :]

    def jacobian(self, near: Geometry, c: np.ndarray) -> np.ndarray:
        z, d, c = near.r[:, None] * near.e, near.e.shape[1], self._all(c)
        bent = self.bumps.hessian(z, c) + self.bumps.hessian(-z, c)
        return near.total(bent.reshape(len(z), -1), 1.0).reshape(near.n, d, d)

    def blocks(self, widths: tuple[float, ...], ranges: tuple[float, ...]) -> Ranged:
        """For each range an even Gaussian process of every width, under an envelope."""
        far = float(np.sqrt((self.bumps.centres**2).sum(axis=1)).max())
        spans = tuple(s for s in ranges if s <= far) or (far,)
        return {span: self._under(span) for span in spans}

    def _under(self, span: float) -> list[Block]:
        found = []
        for width in np.unique(self.bumps.widths)[::-1]:
            here = np.flatnonzero(self.bumps.widths == width)
            centres = self.bumps.centres[here]
            kernel = sum(
                np.exp(-0.5 * cdist(centres, other, "sqeuclidean") / width**2)
                for other in (centres, -centres)
            )
            kernel += constants.JITTER * np.eye(len(here))
            envelope = np.exp(-0.5 * (centres**2).sum(axis=1) / span**2)
            # Values at the centres are `kernel @ c`; they get the covariance under the envelope.
            own = np.linalg.solve(kernel, envelope[:, None] * np.linalg.cholesky(kernel))
            factor = np.zeros((self.count, len(here)))
            factor[here] = own
            found.append(Block(f"W, width {width:g}", factor))
        return found


def _leads(z: np.ndarray) -> np.ndarray:
    """Whether each displacement is the one of z and -z that is kept; zero is, too."""
    signs = np.sign(np.round(z, 9))
    weights = 3.0 ** np.arange(z.shape[1])[::-1]
    return signs @ weights >= 0
