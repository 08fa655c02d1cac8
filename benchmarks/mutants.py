"""Small changes to the numeric core that a test should notice.

Each mutant is the package with one operator or constant changed; the quick tests beside the changed
module run on it, and a failure kills it. `results/mutants.jsonl` holds a line each, `make mutants`
adds what is missing of a fixed sample, and prints those that survived, each with the `reason` that
was written to its line by hand.
"""

import argparse
import ast
import json
import os
import random
import shutil
import signal
import sys
import time
from typing import NamedTuple

import jax
import numpy as np
import ot
import pandas as pd
import pytest
import scipy.stats

from marked_pages import ROOT, fill

LINES, COPY = ROOT / "results" / "mutants.jsonl", ROOT / "build" / "mutants"
PACKAGE, COPIED = ROOT / "src" / "stitchflow", COPY / "stitchflow"
WARM = (jax, np, ot, pd, scipy.stats)  # once for all mutants, which are forks
SECONDS = 170  # a mutant that never ends is noticed too

# Modules by their place in the package.
TESTS = {
    "_measure/kde": ("test_kde",),
    "_objective/residual": ("test_residual",),
    "_objective/intervals": ("test_residual",),
    "_measure/curve": ("test_curve", "test_properties"),
    "_objective/divergence": ("test_divergence",),
    "_energy/energy": ("test_terms", "test_simulate"),
    "_energy/terms": ("test_terms",),
    "_energy/networks": ("test_networks",),
    "metrics": ("test_metrics", "test_properties"),
    "_data/units": ("test_snapshots", "test_flow"),
}
SWAPS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Add,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.USub: ast.UAdd,
}
NAMES = {"minimum": "maximum", "maximum": "minimum", "sum": "mean", "mean": "sum", "exp": "log"}


class Mutant(NamedTuple):
    module: str
    place: int
    line: int
    before: str
    after: str


class Mutate(ast.NodeTransformer):
    """Every place where something can change, in order; the one that is asked for is changed."""

    def __init__(self, wanted: int | None = None):
        self.wanted, self.found, self.count = wanted, [], 0

    def visit(self, node: ast.AST) -> ast.AST:
        # Annotations, texts and the words of an error are no numerics.
        if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom)):
            return node
        if isinstance(node, ast.FunctionDef) and node.name in ("__repr__", "describe"):
            return node
        if isinstance(node, ast.arg):
            return node
        self._offer(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    self.visit(child)
        return node

    def _offer(self, node: ast.AST) -> None:
        if isinstance(node, (ast.BinOp, ast.BoolOp, ast.UnaryOp)) and type(node.op) in SWAPS:
            self._change(node, "op", SWAPS[type(node.op)]())
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            self._change(node, "ops", [SWAPS[type(node.ops[0])](), *node.ops[1:]])
        elif isinstance(node, ast.Attribute) and node.attr in NAMES:
            self._change(node, "attr", NAMES[node.attr])
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            self._change(node, "value", node.value + 1 if node.value else 1)
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            self._change(node, "value", not node.value)

    def _change(self, node: ast.AST, field: str, value) -> None:
        old, before = getattr(node, field), ast.unparse(node)
        setattr(node, field, value)
        self.found.append((node.lineno, before, ast.unparse(node)))
        if self.count != self.wanted:
            setattr(node, field, old)
        self.count += 1


def sample(count: int, seed: int) -> list[Mutant]:
    """The same mutants every time, of each module in proportion to what can change in it."""
    every = []
    for module in TESTS:
        mutate = Mutate()
        mutate.visit(ast.parse((PACKAGE / f"{module}.py").read_text()))
        every += [Mutant(module, i, *found) for i, found in enumerate(mutate.found)]
    return random.Random(seed).sample(every, min(count, len(every)))


def killed(mutant: Mutant) -> tuple[bool, float]:
    """Whether the tests beside the module notice, and after how long."""
    source, changed = (folder / f"{mutant.module}.py" for folder in (PACKAGE, COPIED))
    tree = ast.parse(source.read_text())
    Mutate(mutant.place).visit(tree)
    changed.write_text(ast.unparse(tree))
    start = time.monotonic()
    dead = fails(TESTS[mutant.module], SECONDS)
    changed.write_text(source.read_text())
    return dead, time.monotonic() - start


def fails(tests: tuple[str, ...], seconds: float) -> bool:
    """Whether one of these test files does not pass on the copy within the time."""
    start, pid = time.monotonic(), os.fork()
    if not pid:
        os.dup2(os.open(COPY / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(1, 2)
        sys.path.insert(0, str(COPY))
        files = [str(ROOT / "tests" / f"{name}.py") for name in tests]
        quiet = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
        os._exit(int(pytest.main([*quiet, "--rootdir", str(ROOT), *files])))
    while (status := os.waitpid(pid, os.WNOHANG))[0] == 0:
        if time.monotonic() - start > seconds:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    return status[1] != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=600.0, help="minutes")
    parser.add_argument("--only", nargs="+", default=TESTS, metavar="MODULE", help="of these alone")
    chosen = parser.parse_args()
    until = time.monotonic() + 60 * chosen.budget
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(PACKAGE, COPIED)
    jax.config.update("jax_compilation_cache_dir", str(ROOT / "build" / "mutants-cache"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    lines = LINES.read_text().splitlines() if LINES.exists() else []
    read = [json.loads(line) for line in lines]
    rows = {tuple(row["mutant"]): row["killed"] for row in read}
    reasons = {tuple(row["mutant"]): row["reason"] for row in read if "reason" in row}
    wanted = sample(chosen.count, chosen.seed)
    missing = [m for m in wanted if m not in rows]
    missing = [m for m in missing if m.module in chosen.only]
    needed = tuple(sorted({name for m in missing for name in TESTS[m.module]}))
    if needed and fails(needed, 10 * SECONDS):
        raise SystemExit(f"tests fail on the package as it is: see {COPY / 'log.txt'}")
    for mutant in missing:
        if time.monotonic() > until:
            break
        rows[mutant], seconds = killed(mutant)
        row = {"mutant": mutant, "killed": rows[mutant], "seconds": round(seconds, 1)}
        with open(LINES, "a") as file:
            file.write(json.dumps(row) + "\n")
        print("killed  " if rows[mutant] else "SURVIVED", *mutant, f"{seconds:.0f} s", flush=True)
    # Lines of mutants that the source has since moved past are not of the sample.
    found = table({m: rows[m] for m in wanted if m in rows}, reasons)
    fill(ROOT / "docs" / "reliability.md", "table: benchmarks/mutants.py", found)
    print(found)


def table(rows: dict[tuple, bool], reasons: dict[tuple, str]) -> str:
    """How many were noticed, and why the others were not."""
    from paper.tables import markdown  # not before: the forks import a mutant

    alive = [Mutant(*mutant) for mutant, dead in rows.items() if not dead]
    words = lambda mutant: reasons.get(mutant, "not looked at yet")
    cells = [[f"`{m.module}` {m.line}", f"`{m.before}`", f"`{m.after}`", words(m)] for m in alive]
    noticed = f"{sum(rows.values())} of {len(rows)} mutants are noticed. The others:"
    return f"{noticed}\n\n{markdown(['line', 'was', 'became', 'why no test notices'], cells)}"


if __name__ == "__main__":
    main()
