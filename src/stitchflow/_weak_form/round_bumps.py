"""Functions of V with one block more: those of the distance from the middle of all individuals."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Block, Bumps, Splines


@dataclass(frozen=True)
class RoundBumps(Bumps):
    """`Bumps`, and splines of the distance r from the middle of all individuals.

    A landscape that is round, with or without a cone at its middle, then needs few functions. The
    evidence decides how much of V is round, as it does for every width of the bumps.

    Arguments:
        centres: the centres of the bumps, (j, d).
        widths: the standard deviation of each bump, (j,).
        middle: where r is zero, (d,).
        splines: the functions of r, which may have a kink at zero.
    """

    middle: np.ndarray
    splines: Splines

    @staticmethod
    def around(x: np.ndarray, led: Bumps, most: int) -> RoundBumps:
        """The bumps `led`, and at most `most` splines about the mean of points `x`, (n, d)."""
        middle = x.mean(axis=0)
        far = float(np.quantile(np.linalg.norm(x - middle, axis=1), constants.FARTHEST))
        reach, finest = constants.REACH * far, min(constants.ROUND_WIDTHS)
        count = int(np.clip(np.ceil(reach / (constants.KNOTS * finest)), 8, max(8, most)))
        return RoundBumps(led.centres, led.widths, middle, Splines(reach, count, False))

    @property
    def led(self) -> Bumps:
        """The functions that are not round."""
        return Bumps(self.centres, self.widths)

    @property
    def count(self) -> int:
        return self.led.count + self.splines.count

    def _polar(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The distance from the middle (n,), and the direction away from it, (n, d)."""
        away = x - self.middle
        r = np.sqrt(np.einsum("nd,nd->n", away, away)) + constants.TOUCHING
        return r, away / r[:, None]

    def blocks(self) -> list[Block]:
        found = [block.placed(0, self.count) for block in self.led.blocks()]
        span = self.splines.reach / constants.ROUND_FALL
        for block in self.splines.blocks("round", constants.ROUND_WIDTHS, span):
            found.append(block.placed(self.led.count, self.count))
        return found

    def values(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate([self.led.values(x), self.splines.rows(self._polar(x)[0])], axis=1)

    def slopes(self, x: np.ndarray, bells: np.ndarray | None = None) -> np.ndarray:
        r, e = self._polar(x)
        own = e[:, :, None] * self.splines.rows(r, slopes=True)[:, None, :]
        return np.concatenate([self.led.slopes(x, bells), own], axis=2)

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        r, _ = self._polar(x)
        return np.concatenate([self.led.laplacians(x), self.splines.laplacians(r, self.dim)], 1)

    def gather(self, a: np.ndarray, x: np.ndarray) -> np.ndarray:
        r, e = self._polar(x)
        along = np.einsum("dpn,nd->pn", a, e)
        own = along @ self.splines.rows(r, slopes=True)
        return np.concatenate([self.led.gather(a, x), own], axis=1)

    def slope(self, x: np.ndarray, c: np.ndarray, bells: np.ndarray | None = None) -> np.ndarray:
        (r, e), led = self._polar(x), self.led
        own = self.splines.rows(r, slopes=True) @ c[led.count :]
        return led.slope(x, c[: led.count], bells) + e * own[:, None]

    def hessian(self, x: np.ndarray, c: np.ndarray, bells: np.ndarray | None = None) -> np.ndarray:
        (r, e), led = self._polar(x), self.led
        across = self.splines.rows(r, slopes=True) @ c[led.count :] / r
        along = self.splines.bends(r) @ c[led.count :] - across
        out = led.hessian(x, c[: led.count], bells)
        out += along[:, None, None] * e[:, :, None] * e[:, None, :]
        return out + across[:, None, None] * np.eye(self.dim)

    def wider(self, than: float) -> Bumps:
        kept = self.led.wider(than)
        return replace(self, centres=kept.centres, widths=kept.widths)
