"""Parts of one's own: stored by name and settings, asked for by name, never taken for others."""

import functools
import json
from dataclasses import dataclass, replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import stitchflow as sf
from stitchflow import _parts
from stitchflow._energy import terms
from stitchflow._energy.packing import plan_of
from stitchflow._parts import built_in, described, name_of
from stitchflow.bench._runs import Run
from stitchflow.datasets import double_well

DATA = double_well(n=40, key=0)[0].subsample(20, 0)
SMALL = {"particles": 6, "nodes": 12}
QUICK = sf.Optimiser(steps=2)
HERE = __name__


def energy() -> sf.Energy:
    return sf.Potential(hidden=(4,)) + sf.Entropy()


class Capped(sf.Divergence):
    least: float = eqx.field(static=True, default=-8.0)

    def __call__(self, rho, points, weights, key):
        return -(weights * jnp.maximum(rho.log_density(points), self.least)).sum()


class KL(sf.KL):
    """One's own by the name of a built-in one, with the same settings: none."""

    def __call__(self, rho, points, weights, key):
        return 0.5 * super().__call__(rho, points, weights, key)


class Halved(sf.VelocityResidual):
    @property
    def factor(self):
        return 0.5 * super().factor


class Gathering(sf.Term):
    strength: float = eqx.field(static=True)

    def init(self, cloud, units, key):
        return self

    def gradient(self, x, t, cloud, field):
        mean = (cloud.weights[..., None] * cloud.centres).sum(axis=1, keepdims=True)
        return self.strength * (x - mean)

    def first_variation(self, x, t, cloud, field):
        return 0.5 / self.strength * (self.gradient(x, t, cloud, field) ** 2).sum(axis=-1)

    local = first_variation

    @property
    def settings(self):
        return {"strength": self.strength}


class Potential(Gathering):
    """A term of one's own by the name of a built-in one."""


@dataclass(frozen=True)
class Doubled(sf.Stitching):
    """A method of one's own that goes by its parent's name."""


def flat(x):
    return 0.0 * x[0]


def bowl(x):
    return 2.0 * (x**2).sum()


PRIOR = sf.growth_prior(DATA.x, np.arange(len(DATA.x)), np.ones(len(DATA.x)), neighbours=3)
CLIPPED = functools.partial(optax.adamw, weight_decay=0.1)
GROWTH = functools.partial(sf.Growth, hidden=(4,))

OWN = {
    "divergence": (sf.Stitching(energy(), divergence=Capped(-3.0)), {"Capped": Capped}),
    "the name of a built-in": (sf.Stitching(energy(), divergence=KL()), {"KL": KL}),
    "residual": (sf.Stitching(energy(), residual=Halved(weight=2.0)), {"Halved": Halved}),
    "transform": (
        sf.Stitching(energy(), optimiser=replace(QUICK, transform=optax.nadam)),
        {"optax.nadam": optax.nadam},
    ),
    "bound transform": (
        sf.Stitching(energy(), optimiser=replace(QUICK, transform=CLIPPED)),
        {"optax.adamw": CLIPPED},
    ),
    "prior": (sf.Stitching(energy(), growth=GROWTH(prior=flat)), {"flat": flat}),
    "prior of a table": (
        sf.Stitching(energy(), growth=GROWTH(prior=PRIOR)),
        {"stitchflow.NearbyRate": PRIOR},
    ),
    "method": (Doubled(energy()), {"Doubled": Doubled}),
    "term": (sf.Stitching(Gathering(0.5) + energy()), {"Gathering": Gathering}),
    "the name of a built-in term": (
        sf.Stitching(Potential(0.5) + energy()),
        {"Potential": Potential},
    ),
    "function": (sf.Stitching(sf.Potential(bowl) + sf.Entropy()), {"bowl": bowl}),
}


def quick(method: sf.Stitching) -> sf.Stitching:
    rule = replace(method.optimiser, steps=QUICK.steps)
    return replace(method, optimiser=rule, **SMALL)


def named(parts: dict) -> dict:
    return {name if "." in name else f"{HERE}.{name}": part for name, part in parts.items()}


@pytest.fixture(scope="module")
def fitted():
    """What every method here would find: parameters do not matter, only what is stored."""
    known = {}

    def of(name: str) -> sf.Fit:
        if name not in known:
            method = quick(OWN[name][0]).resolved(DATA)
            known[name] = method._as_fit(_started(method), DATA)
        return known[name]

    return of


def _started(method):
    import jax

    from stitchflow._stitching.start import start_model
    from stitchflow._training.optimise import Optimum

    model = start_model(method.plan(DATA), DATA, *jax.random.split(jax.random.key(0)))
    return Optimum(model, [], sf.Status(True, "started"), 0, 0.0)


@pytest.mark.parametrize("name", OWN)
def test_a_part_of_ones_own_is_asked_for_and_comes_back(tmp_path, fitted, name):
    fit, parts = fitted(name), named(OWN[name][1])
    fit.save(tmp_path / "run")
    (asked,) = parts
    with pytest.raises(ValueError, match=r"of your own.*never stored.*parts=") as refused:
        sf.load(tmp_path / "run")
    assert asked in str(refused.value)
    again = sf.load(tmp_path / "run", parts=parts)
    assert type(again.method) is type(fit.method)
    assert described(again.method, leave_out=("energy",)) == described(
        fit.method, leave_out=("energy",)
    )
    assert plan_of(again.method) == plan_of(fit.method)
    x = DATA.cloud(0)
    np.testing.assert_allclose(
        again.energy.velocity(x, 0.0, x), fit.energy.velocity(x, 0.0, x), rtol=1e-6
    )
    stored = json.loads((tmp_path / "run" / "header.json").read_text())
    assert stored["format"] == 3
    assert asked in json.dumps(stored)


def test_a_term_of_this_package_may_need_an_argument(tmp_path, monkeypatch):
    """Its size is told by its settings: none is made to ask it."""

    class Leaning(Gathering):
        __module__, __qualname__ = terms.__name__, "Leaning"

    monkeypatch.setattr(terms, "Leaning", Leaning, raising=False)
    method = quick(sf.Stitching(Leaning(0.5) + energy())).resolved(DATA)
    fit = method._as_fit(_started(method), DATA)
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    assert again.energy.terms[0] == Leaning(0.5)
    x = DATA.cloud(0)
    np.testing.assert_array_equal(again.flow.velocity(x, 0.2), fit.flow.velocity(x, 0.2))


def test_settings_of_a_part_come_from_the_run(tmp_path, fitted):
    fitted("divergence").save(tmp_path / "run")
    own = f"{HERE}.Capped"
    assert sf.load(tmp_path / "run", parts={own: Capped}).method.divergence == Capped(-3.0)
    assert sf.load(tmp_path / "run", parts={own: Capped(-3.0)}).method.divergence == Capped(-3.0)
    with pytest.raises(ValueError, match=r"Capped should be .*-3\.0.*, got .*-8\.0"):
        sf.load(tmp_path / "run", parts={own: Capped()})
    fitted("bound transform").save(tmp_path / "other")
    with pytest.raises(ValueError, match=r"optax\.adamw should be"):
        sf.load(tmp_path / "other", parts={"optax.adamw": optax.adamw})
    with pytest.raises(TypeError, match="parts must map names"):
        sf.load(tmp_path / "run", parts=[Capped])


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("term", Gathering(5.0) + energy()),
        ("term", energy() + Gathering(0.5)),
        ("term", Gathering(0.5)),
        ("the name of a built-in term", sf.Potential(hidden=(4,)) + energy()),
        ("function", sf.Potential(lambda x: 3.0 * (x**2).sum()) + sf.Entropy()),
        ("function", sf.Potential(hidden=(4,)) + sf.Entropy()),
        ("divergence", sf.Potential(bowl) + sf.Entropy()),
        ("function", sf.Potential(lambda x, t: 2.0 * (x**2).sum()) + sf.Entropy()),
        ("function", sf.Potential(bowl, learn=True) + sf.Entropy(0.3, learn=False)),
    ],
)
def test_another_energy_is_refused(tmp_path, fitted, name, other):
    fitted(name).save(tmp_path / "run")
    words = r"energy should have|does not do what the fitted one did"
    with pytest.raises(ValueError, match=words):
        sf.load(tmp_path / "run", energy=other)


def test_the_same_energy_is_taken_wherever_it_is_written(tmp_path, fitted):
    fit = fitted("function")
    fit.save(tmp_path / "run")
    same = sf.Potential(lambda x: 2.0 * (x**2).sum()) + sf.Entropy()
    again = sf.load(tmp_path / "run", energy=same)
    np.testing.assert_allclose(again.energy.potential(DATA.x), fit.energy.potential(DATA.x))


def scaled(size):
    return lambda x: size * x[0]


PAIRS = {
    "settings": [replace(sf.Stitching(), divergence=Capped(least)) for least in (-3.0, -1.0)],
    "names": [replace(sf.Stitching(), divergence=kind()) for kind in (sf.KL, KL)],
    "residuals": [replace(sf.Stitching(), residual=k()) for k in (sf.VelocityResidual, Halved)],
    "transforms": [
        replace(sf.Stitching(), optimiser=replace(QUICK, transform=rule))
        for rule in (optax.adam, optax.nadam, CLIPPED, lambda s: optax.sgd(s))
    ],
    "priors": [
        sf.Stitching(growth=GROWTH(prior=p))
        for p in (None, flat, scaled(1.0), scaled(2.0), lambda x: 3.0 * x[0], PRIOR)
    ],
    "constants": [sf.Stitching(sf.Potential(f)) for f in (scaled(1.0), scaled(2.0), bowl)],
    "literals": [
        sf.Stitching(sf.Potential(lambda x: x[0])),
        sf.Stitching(sf.Potential(lambda x: 2 * x[0])),
    ],
    "terms": [sf.Stitching(Gathering(0.5)), sf.Stitching(Gathering(0.7))],
    "methods": [sf.Stitching(), Doubled()],
}


@pytest.mark.parametrize("what", PAIRS)
def test_plans_tell_parts_apart(what):
    words = {json.dumps(plan_of(method), sort_keys=True) for method in PAIRS[what]}
    assert len(words) == len(PAIRS[what])


def test_a_checkpoint_belongs_to_its_parts(tmp_path):
    checkpoint = sf.Checkpoint(tmp_path / "state.npz", seconds=0.0)
    owners = {
        checkpoint.owned_by(plan_of(method)).owner for group in PAIRS.values() for method in group
    }
    again = {checkpoint.owned_by(plan_of(method)).owner for method in PAIRS["priors"]}
    assert again <= owners
    distinct = {json.dumps(plan_of(m), sort_keys=True) for g in PAIRS.values() for m in g}
    assert len(owners) == len(distinct) > 20


def test_a_result_belongs_to_its_parts():
    prepared = Run("synthetic-sphere-paired").prepare()
    kinds = (sf.KL(), KL(), Capped(-3.0), Capped(-1.0))
    methods = [replace(prepared.method, divergence=kind) for kind in kinds]
    found = {replace(prepared, method=method).identity["settings"] for method in methods}
    assert len(found) == len(kinds)


def test_plans_of_built_in_parts_keep_their_words():
    """Results are stored under these: another word would mean to compute all of them again."""
    plan = plan_of(sf.Stitching(sf.Potential(hidden=(8,)) + sf.Entropy()))
    assert plan["class"] == "Stitching"
    assert plan["divergence"] == {"class": "KL"}
    assert "transform" not in plan["optimiser"]
    assert plan["energy"][0] == ["Potential(V(x))", {"hidden": [8], "time_varying": False}]
    assert "stitchflow" not in json.dumps(plan)


def test_names_are_public_and_only_real_built_ins_bear_them():
    assert name_of(sf.KL) == "stitchflow.KL"
    assert name_of(optax.nadam) == "optax.nadam"
    assert name_of(KL) == f"{HERE}.KL"
    pretender = type("KL", (sf.KL,), {"__module__": "stitchflow._objective.divergence"})
    assert name_of(pretender) != "stitchflow.KL"
    assert built_in("stitchflow.KL") is sf.KL
    assert built_in("stitchflow.os") is None
    assert built_in("stitchflow.KL", sf.Term) is None


def test_every_built_in_part_is_known_by_a_name_of_its_own():
    kinds = [kind for kind in _parts._below(_parts.Part) if _parts.is_built_in(kind)]
    names = [name_of(kind) for kind in set(kinds)]
    assert len(names) == len(set(names)) > 25
    for kind in (sf.KL, sf.DensityResidual, sf.Trapezoid, sf.Entropy, sf.Optimiser, sf.Growth):
        assert kind in kinds


def test_a_name_in_a_file_imports_nothing(tmp_path, fitted):
    import sys

    fit = fitted("divergence")
    fit.save(tmp_path / "run")
    path = tmp_path / "run" / "header.json"
    text = path.read_text().replace(f"{HERE}.Capped", "antigravity.Capped")
    header = {k: v for k, v in json.loads(text).items() if k != "sha256"}
    from stitchflow._storage.run_state import seal

    path.write_text(json.dumps(header | {"sha256": seal(header)}))
    with pytest.raises(ValueError, match=r"antigravity\.Capped"):
        sf.load(tmp_path / "run")
    assert "antigravity" not in sys.modules


def test_functions_of_one_factory_are_told_apart_and_so_are_those_they_call():
    one, other = (described(scaled(size), code=True) for size in (1.0, 2.0))
    assert one != other
    assert one["function"] == other["function"]

    def outer(x):
        return flat(x)

    def again(x):
        return again(x)  # a function that calls itself has an end

    assert described(outer, code=True)["globals"]["flat"]["code"]
    assert described(again, code=True)["holds"]["again"] == {"again": "builtins.function"}
