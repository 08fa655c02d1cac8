"""One compiled loop of gradient steps, with a progress bar and a readable end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from stitchflow._parts import LATER, Part
from stitchflow._status import BadInputType, Status
from stitchflow._stitching import defaults
from stitchflow._training.checkpoint import Checkpoint
from stitchflow._training.history import StageHistory, in_a_row
from stitchflow._types import LARGEST, check_count, check_number
from stitchflow.tracking import tell, tqdm


@dataclass(frozen=True)
class Optimiser(Part):
    """Adam with clipped gradients and a learning rate that decays along a cosine.

    Arguments:
        steps: how many steps are made; None leaves the number to the method.
        learning_rate: the largest rate, which is the first one without `warmup`.
        final: the last rate as a share of the largest one, from 0 to 1.
        clip: the largest norm of a gradient; larger ones are scaled down to it. None leaves all as
            they are.
        patience: stop where the loss has not improved over this many hundredths of the fit; None
            makes all steps.
        warmup: the share of the steps over which the rate rises from zero. It protects a model that
            starts close to the optimum.
        transform: a function of a learning-rate schedule that returns an optax rule, in place of
            Adam.
        last: whether the last parameters are kept; otherwise those with the lowest loss.
        pace: the particles' share of the learning rate; None slows them down where they are paths
            of individuals.

    Examples:
        >>> sf.Optimiser(steps=500, learning_rate=1e-3).steps
        500
        >>> import optax
        >>> quick = sf.Optimiser(patience=10, transform=optax.sgd)
    """

    steps: int | None = None
    learning_rate: float = defaults.LEARNING_RATE
    final: float = defaults.FINAL_RATE
    clip: float | None = defaults.CLIP
    patience: int | None = None
    warmup: float = 0.0
    transform: Callable[[Any], optax.GradientTransformation] = field(default=optax.adam, repr=False)
    last: bool = field(default=False, metadata=LATER)
    pace: float | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        if self.steps is not None:
            check_count(self.steps, "steps")
        # A rate that is infinite in float32 would move every parameter there.
        check_number(self.learning_rate, "learning_rate", 0.0, LARGEST, open_low=True)
        check_number(self.final, "final", 0.0, 1.0)
        for name in ("clip", "pace"):
            if getattr(self, name) is not None:
                check_number(getattr(self, name), name, 0.0, open_low=True)
        check_number(self.warmup, "warmup", 0.0, 1.0)
        if self.patience is not None:
            check_count(self.patience, "patience")
        if not callable(self.transform):
            raise BadInputType(f"transform must be an optax rule, got {self.transform!r}")

    def rule(self, steps: int) -> optax.GradientTransformation:
        """The optax rule: clipping, then the transform with its schedule.

        Arguments:
            steps: the number of steps over which the rate decays.

        Returns:
            The rule.
        """
        schedule = optax.cosine_decay_schedule(self.learning_rate, steps, self.final)
        if self.warmup > 0.0:
            end = self.final * self.learning_rate
            rise = max(1, round(self.warmup * steps))
            schedule = optax.warmup_cosine_decay_schedule(
                0.0, self.learning_rate, rise, max(steps, rise + 1), end
            )
        if self.clip is None:
            return self.transform(schedule)
        return optax.chain(optax.clip_by_global_norm(self.clip), self.transform(schedule))


@dataclass(frozen=True)
class Optimum:
    """The result of `minimise`.

    Arguments:
        model: the best model that was found.
        history: one history for each stage.
        status: whether the minimisation succeeded, with a sentence.
        steps: how many steps were made.
        seconds: how long it took.
    """

    model: Any
    history: list[StageHistory]
    status: Status
    steps: int
    seconds: float

    def then(self, other: Optimum, model: Any) -> Optimum:
        """Two minimisations in a row as one."""
        words = f"{self.status.message}, then {other.status.message}"
        return Optimum(
            model,
            in_a_row([*self.history, *other.history]),
            Status(self.status.ok and other.status.ok, words),
            self.steps + other.steps,
            self.seconds + other.seconds,
        )


def minimise(
    loss: Callable[[Any, Any, Array], tuple[Array, dict[str, Array]]],
    model: Any,
    data: Any,
    key: Array,
    optimiser: Optimiser,
    steps: int,
    progress: bool = True,
    label: str = "fit",
    checkpoint: Checkpoint | None = None,
    pace: Callable[[Any], Any] | None = None,
    shared: Any = None,
    last: bool = False,
) -> Optimum:
    """Minimise `loss(model, data, key) -> (value, parts)` over the model's float arrays.

    A step whose loss, gradient or end is not finite is skipped, counted, and halves the rate. The
    parameters kept are those of the look with the lowest mean loss since the look before, or with
    `last` the last finite ones: the loss of a game, or of few individuals, picks by chance. `pace`
    turns the model into multipliers of the rate, one for each of its arrays. Data too large to hold
    is a function of the share of the fit that is done, in tenths, with answers of one shape.

    With `shared`, the arrays of model and key have a leading axis of members that are trained side
    by side, and `shared` says of each array of the data whether all see the same (None) or each
    its own (0). Numbers in the history are then means over members.
    """
    start = time.perf_counter()
    make_room()
    steps = optimiser.steps or steps
    params, static = eqx.partition(model, eqx.is_inexact_array)
    # Weak types would make the second call another program.
    params = jax.tree.map(lambda p: jnp.array(p, dtype=p.dtype, copy=True), params)
    members = 1 if shared is None else key.shape[0]
    value = lambda p, d, k: loss(eqx.combine(p, static), d, k)
    first = lambda p: _Carry(
        params=p,
        state=optimiser.rule(steps).init(p),
        rate=jnp.ones((), float),
        step=jnp.zeros((), jnp.int32),
        sums={},
        skipped=jnp.zeros((), jnp.int32),
    )
    if shared is not None:
        value, first = jax.vmap(value, (0, shared, 0)), jax.vmap(first)
    pools = data if callable(data) else lambda _: data
    tenth, seen = 0, pools(0)
    total, parts = eqx.filter_eval_shape(value, params, seen, key)
    zero = jnp.zeros(total.shape, float)
    sums = {"loss": zero, **{name: jnp.zeros(p.shape, p.dtype) for name, p in parts.items()}}
    carry = first(params)._replace(sums={**sums, "gradient": zero})
    best, best_loss = params, zero + np.inf
    program = (loss, static, optimiser, steps, last)
    ones = jax.tree.map(lambda p: jnp.ones((), p.dtype), params)
    paces = ones if pace is None else pace(ones)
    every = max(1, -(-steps // defaults.LOOKS))
    now = _Standing(carry, best, best_loss, [], 0, 0)
    stored = checkpoint.read(now[:3]) if checkpoint else None
    if stored is not None:
        now = _Standing(*stored[0], **stored[1])
    interrupted = False
    bar = tqdm(
        total=steps, initial=now.done, desc=label, disable=not progress, unit="step", leave=False
    )
    try:
        while not now.over(optimiser, steps, members):
            if checkpoint and checkpoint.stopped.is_set():
                raise KeyboardInterrupt
            if 10 * now.done // steps != tenth:
                tenth = 10 * now.done // steps
                seen = pools(tenth)
            end = jnp.asarray(min(now.done + every, steps), jnp.int32)
            carry, best, least, means = _look(program, shared, *now[:3], end, seen, key, paces)
            row = {name: float(part.mean()) for name, part in means.items()}
            # One assignment: an interruption finds the state of this look or of the last.
            now = now.followed_by(carry, best, least, {"step": int(end), **row})
            tell(label, now.rows[-1])
            bar.update(now.done - bar.n)
            bar.set_postfix({n: f"{v:.4g}" for n, v in row.items()}, refresh=False)
            if checkpoint and (checkpoint.due() or now.over(optimiser, steps, members)):
                checkpoint.write(now[:3], now.notes)
    except KeyboardInterrupt:
        interrupted = True
        if checkpoint:
            checkpoint.write(now[:3], now.notes)
    finally:
        bar.close()

    rows = now.rows
    columns = {n: np.array([row[n] for row in rows]) for n in rows[0]} if rows else {}
    history = [StageHistory(label, columns)] if rows else []
    status = _status(now, optimiser, steps, interrupted)
    model = eqx.combine(now.best, static)
    return Optimum(model, history, status, now.done, time.perf_counter() - start)


MAPS_ALLOWED = Path("/proc/sys/vm/max_map_count")


def make_room() -> None:
    """Let go of compiled programs before the process has as many memory maps as Linux allows.

    Every program takes some, and a compiler that gets no more ends the process.
    """
    if not MAPS_ALLOWED.exists():
        return
    maps = Path("/proc/self/maps").read_bytes().count(b"\n")
    if maps > 0.5 * int(MAPS_ALLOWED.read_text()):
        jax.clear_caches()


class _Standing(NamedTuple):
    """Where a minimisation stands at a look: everything that what follows depends on."""

    carry: _Carry
    best: Any
    best_loss: Array
    rows: list[dict[str, float]]
    waits: int
    skipped: int

    @property
    def done(self) -> int:
        return int(self.rows[-1]["step"]) if self.rows else 0

    @property
    def notes(self) -> dict[str, Any]:
        return {"rows": self.rows, "waits": self.waits, "skipped": self.skipped}

    def followed_by(
        self, carry: _Carry, best: Any, best_loss: Array, row: dict[str, float]
    ) -> _Standing:
        old, new = np.asarray(self.best_loss), np.asarray(best_loss)
        known = np.isfinite(old)  # a member's first finite loss is better than none
        better = bool((np.isfinite(new) & ~known).any())
        if known.any() and not better:
            before = float(old[known].mean())
            better = float(new[known].mean()) < before - 1e-4 * abs(before)
        waits, skipped = 0 if better else self.waits + 1, self.skipped + int(carry.skipped.sum())
        return _Standing(carry, best, best_loss, [*self.rows, row], waits, skipped)

    def flat(self, optimiser: Optimiser) -> bool:
        """Whether the loss no longer falls."""
        return optimiser.patience is not None and self.waits >= optimiser.patience

    def over(self, optimiser: Optimiser, steps: int, members: int) -> bool:
        # Nothing finite in a tenth of the fit: nothing will come.
        hopeless = self.skipped == self.done * members and len(self.rows) >= 10
        return self.done >= steps or self.flat(optimiser) or hopeless


class _Carry(NamedTuple):
    """The state of the loop between two steps."""

    params: Any
    state: Any
    rate: Array
    step: Array
    sums: dict[str, Array]
    skipped: Array


@eqx.filter_jit
def _look(program: tuple, shared: Any, *state: Any) -> tuple[_Carry, Any, Array, dict[str, Array]]:
    """`_steps` of one model or several side by side; fits of one program share its compilation."""
    steps = partial(_steps, program)
    if shared is not None:
        steps = jax.vmap(steps, (0, 0, 0, None, shared, 0, None))
    return steps(*state)


def _steps(
    program: tuple,
    carry: _Carry,
    best: Any,
    best_loss: Array,
    until: Array,
    data: Any,
    key: Array,
    paces: Any,
) -> tuple[_Carry, Any, Array, dict[str, Array]]:
    """Steps up to `until` without a word to the host."""
    loss, static, optimiser, steps, newest = program
    rule = optimiser.rule(steps)

    def one(c: _Carry) -> _Carry:
        value = lambda p: loss(eqx.combine(p, static), data, jax.random.fold_in(key, c.step))
        (total, parts), grads = jax.value_and_grad(value, has_aux=True)(c.params)
        norm = jnp.sqrt(sum((g**2).sum() for g in jax.tree.leaves(grads)))
        updates, state = rule.update(grads, c.state, c.params)
        moved = jax.tree.map(lambda p, u, m: p + c.rate * m * u, c.params, updates, paces)
        good = jnp.isfinite(total) & jnp.isfinite(norm)
        for leaf in jax.tree.leaves(moved):
            good = good & jnp.isfinite(leaf).all()
        keep = lambda new, old: jax.tree.map(lambda a, b: jnp.where(good, a, b), new, old)
        seen = {"loss": total, **parts, "gradient": norm}
        return _Carry(
            params=keep(moved, c.params),
            state=keep(state, c.state),
            rate=jnp.where(good, c.rate, 0.5 * c.rate),
            step=c.step + 1,
            sums=jax.tree.map(lambda s, x: s + jnp.where(good, x, 0.0), c.sums, seen),
            skipped=c.skipped + jnp.where(good, 0, 1),
        )

    fresh = jax.tree.map(jnp.zeros_like, carry.sums)
    first = carry._replace(sums=fresh, skipped=jnp.zeros_like(carry.skipped))
    last = jax.lax.while_loop(lambda c: c.step < until, one, first)
    done = until - carry.step - last.skipped
    means = jax.tree.map(lambda s: s / done, last.sums)  # 0 / 0 when every step was skipped
    better = jnp.isfinite(means["loss"]) if newest else means["loss"] < best_loss
    best = jax.tree.map(lambda new, old: jnp.where(better, new, old), last.params, best)
    return last, best, jnp.where(better, means["loss"], best_loss), means


def _status(now: _Standing, optimiser: Optimiser, steps: int, interrupted: bool) -> Status:
    done, skipped = now.done, now.skipped
    if not np.isfinite(float(now.best_loss.max())):
        if interrupted:
            return Status(False, "interrupted before the first look; the model is the start")
        return Status(False, f"diverged: no finite step among {done}; the model is the start")
    ok, words = True, f"finished {done} steps"
    if interrupted:
        ok, words = False, f"interrupted after {done} of {steps} steps; the best model so far"
    elif now.flat(optimiser):
        words = f"converged after {done} of {steps} steps: the loss no longer falls"
    if skipped:
        words += f"; {skipped} non-finite steps skipped"
        ok = ok and skipped < 0.1 * max(done, 1)
    return Status(ok, words)
