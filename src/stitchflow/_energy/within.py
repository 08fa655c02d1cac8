"""Pair terms within populations: many small clouds at once, each moved by its own members."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stitchflow._energy.energy import Energy
from stitchflow._measure.kde import Cloud, Field
from stitchflow._types import Scalar


class Populations(eqx.Module):
    """The rows of a cloud, sorted into populations within which pair terms act.

    Populations of about one size are one block, so that few programs do the work of many: each
    block is padded to its largest population, which has less than twice as many members as its
    smallest. Padding repeats a member without weight.

    Arguments:
        rows: for each block, the rows of the cloud that the members of its populations are.
        weights: for each block, the share of each member in its population; 0 for padding.
        place: where each row of the cloud is found among the members of all blocks.
    """

    rows: tuple[Int[Array, "_ _"], ...]
    weights: tuple[Float[Array, "_ _"], ...]
    place: Int[Array, " n"]

    @staticmethod
    def of(labels: np.ndarray, weights: np.ndarray) -> Populations:
        """The populations of rows with equal labels.

        Arguments:
            labels: the label of each row.
            weights: how much each row counts in its population, (n,).
        """
        label = np.unique(labels, return_inverse=True)[1]
        sizes, order = np.bincount(label), np.argsort(label, kind="stable")
        starts = np.cumsum(sizes) - sizes
        blocks, shares, before = [], [], 0
        place = np.empty(len(label), int)
        doublings = np.ceil(np.log2(sizes)).astype(int)
        for doubling in np.unique(doublings):
            chosen = np.flatnonzero(doublings == doubling)
            most = int(sizes[chosen].max())
            member = np.arange(most)[None, :]
            there = member < sizes[chosen, None]
            rows = order[starts[chosen, None] + np.where(there, member, 0)]
            share = np.where(there, weights[rows], 0.0)
            full = share.sum(axis=1, keepdims=True)
            place[rows[there]] = before + np.flatnonzero(there)
            before += rows.size
            blocks.append(jnp.asarray(rows))
            shares.append(jnp.asarray(share / np.where(full > 0.0, full, 1.0), float))
        return Populations(tuple(blocks), tuple(shares), jnp.asarray(place))

    def padded(self, fill: Array) -> Populations:
        """The same populations for a cloud whose further rows are copies of the rows `fill`."""
        return Populations(self.rows, self.weights, self.place[fill])

    def gradient(self, energy: Energy, x: Float[Array, "n d"], t: Scalar) -> Float[Array, "n d"]:
        """The gradient of the pair terms of `energy` at each row, from its own population alone.

        Arguments:
            energy: an energy of pair terms.
            x: the positions of the cloud.
            t: the internal time.
        """
        found = []
        for rows, weights in zip(self.rows, self.weights, strict=True):
            members, times = x[rows], jnp.broadcast_to(t, rows.shape[:1])
            push = energy.gradient(members, times, Cloud(members, weights), Field())
            found.append(push.reshape(-1, x.shape[1]))
        return jnp.concatenate(found)[self.place]

    def some(self, most: int) -> tuple[Int[Array, " n"], Populations]:
        """About `most` rows in whole populations, and those as a cloud of its own.

        Of populations of more than `most` members only a part is taken.
        """
        each, blocks, shares = max(1, most // len(self.rows)), [], []
        for rows, weights in zip(self.rows, self.weights, strict=True):
            members = slice(None, None, -(-rows.shape[1] // each))
            count = len(range(rows.shape[1])[members])
            chosen = slice(None, None, max(1, rows.shape[0] * count // each))
            share = weights[chosen, members]
            full = share.sum(axis=1, keepdims=True)
            blocks.append(rows[chosen, members])
            shares.append(share / jnp.where(full > 0.0, full, 1.0))
        sizes, before, own = [block.size for block in blocks], 0, []
        for block, size in zip(blocks, sizes, strict=True):
            own.append((before + jnp.arange(size)).reshape(block.shape))
            before += size
        flat = jnp.concatenate([block.reshape(-1) for block in blocks])
        return flat, Populations(tuple(own), tuple(shares), jnp.arange(before))
