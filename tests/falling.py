"""A population that falls into two wells, in closed form: a fit that needs no fitting."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

import stitchflow as sf
from stitchflow._method.flow import Flow
from stitchflow._training.history import StageHistory, in_a_row
from stitchflow._types import as_rng


def well(x):
    return 0.25 * (x[0] ** 2 - 1.0) ** 2 + 0.5 * (x[1:] ** 2).sum()


class Falling(Flow):
    """The gradient flow of the well, in closed form; the start is a normal distribution."""

    def __init__(self, dim: int = 2):
        self.dim = dim

    def sample(self, times, n, key=0):
        start = as_rng(key).normal(size=(n, self.dim)) * widths(self.dim)
        moved = (self.simulate(start, [0.0, t])[-1] if t > 0 else start for t in times)
        return jnp.stack([jnp.asarray(cloud, jnp.float32) for cloud in moved])

    def simulate(self, x0, times, key=0, *, weights=None, groups=None, ode=False):
        x, grown = np.asarray(x0), np.exp(np.asarray(times) - times[0])[:, None]
        first = x[:, 0] * grown / np.sqrt(1.0 + x[:, 0] ** 2 * (grown**2 - 1.0))
        return jnp.asarray(np.concatenate([first[..., None], x[:, 1:] / grown[..., None]], axis=2))


def widths(dim: int) -> np.ndarray:
    return np.array([0.3] + [1.0] * (dim - 1))


def falling(dim: int = 2, n: int = 150) -> sf.Snapshots:
    rng = np.random.default_rng(0)
    start = rng.normal(size=(n, dim)) * widths(dim)
    times = [0.0, 0.7, 1.5, 3.0]
    clouds = np.asarray(Falling().simulate(start, times))
    return sf.Snapshots.from_arrays(clouds + 0.1 * rng.normal(size=clouds.shape), times)


def known_fit(energy: sf.Term, dim: int = 2, history: Sequence[StageHistory] = ()) -> sf.Fit:
    """A fit whose energy is known, so that a picture does not hang on an optimiser."""
    known, ended = sf.Energy.known(energy, dim), sf.Status(True, "known")
    data = falling(dim)
    return sf.Fit(sf.Stitching(), Falling(dim), known, ended, list(history), 0, 0.0, data=data)


def three_stages() -> list[StageHistory]:
    """The history of a fit whose stages took 40, 20 and 30 steps."""
    column = lambda *values: np.array(values)
    return in_a_row(
        [
            StageHistory(
                "stitching",
                {
                    "step": column(20, 40),
                    "loss": column(8.0, 6.0),
                    "divergence": column(5.0, 4.0),
                    "residual": column(1.0, 0.5),
                },
            ),
            StageHistory(
                "consistency",
                {
                    "step": column(10, 20),
                    "loss": column(3.0, 2.0),
                    "consistency": column(0.1, 0.03),
                    "residual": column(0.4, 0.25),
                },
            ),
            StageHistory(
                "settling",
                {
                    "step": column(15, 30),
                    "loss": column(2.0, 1.0),
                    "divergence": column(3.5, 3.0),
                    "residual": column(0.2, 0.125),
                },
            ),
        ]
    )
