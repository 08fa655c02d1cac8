"""The shape of the code in numbers: `python benchmarks/anatomy.py [ROOT]`.

Counts are made by the same rules for any checkout of the project, so that two versions can be
compared: `ROOT` is the folder that holds `src`, `tests` and `benchmarks`. Code lines are without
blank lines, comments and docstrings; prose is comments and docstrings.
"""

from __future__ import annotations

import ast
import io
import json
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

# What a fit is made of: the folders of today, and the modules of version 0.1.0 that became them.
FOLDERS = ("_data", "_measure", "_energy", "_objective", "_training", "_method", "_stitching")
MODULES = [
    "_units",
    "_snapshots",
    "_observations",
    "_advice",
    "_motion",
    "_content",
    "_kde",
    "_curve",
    "_spline",
    "_coupling",
    "_sinkhorn",
    "_drift",
    "_energy",
    "_terms",
    "_pair_terms",
    "_vector_field",
    "_networks",
    "_feature_terms",
    "_simulate",
    "_packing",
    "_optimise",
    "_checkpoint",
    "_sharding",
    "_cluster",
    "_residual",
    "_density_residual",
    "_dissipation",
    "_intervals",
    "_divergence",
    "_consistency",
    "_growth",
    "_method",
    "_methods",
    "_flow",
    "_driven",
    "_stitching",
    "_choices",
    "_start",
    "_stages",
    "_ensemble",
]
DEFAULTS = "_stitching/defaults.py"
METHODS = {"Stitching", "StitchedFlow", "Method"}
TERMS = {"Potential", "Entropy", "Interaction", "VectorKernel", "VectorField", "InternalEnergy"}


def prose_and_code(source: str) -> tuple[int, int]:
    """Lines of comments and docstrings, and lines of code."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, kinds) and node.body and ast.get_docstring(node, clean=False):
            text = node.body[0]
            docstrings |= set(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    comments: set[int] = set()
    code: set[int] = set()
    layout = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in layout:
            code |= set(range(token.start[0], token.end[0] + 1))
    blank = {i for i, line in enumerate(source.splitlines(), 1) if not line.strip()}
    return len((docstrings | comments) - blank), len(code - docstrings - blank)


def lines_of(paths: Iterable[Path]) -> tuple[int, int]:
    counts = [prose_and_code(path.read_text()) for path in paths]
    return sum(prose for prose, _ in counts), sum(code for _, code in counts)


def is_science(path: Path, package: Path) -> bool:
    place = path.relative_to(package)
    return place.parts[0] in FOLDERS or (len(place.parts) == 1 and place.stem in MODULES)


def numbers(path: Path) -> Iterator[str]:
    """Names in capitals that a module gives to numbers."""
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, ast.Assign):
            continue
        target = node.targets[0]
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        values = [v for v in ast.walk(node.value) if isinstance(v, ast.Constant)]
        if values and all(isinstance(v.value, (int, float)) for v in values):
            yield from (n.id for n in names if isinstance(n, ast.Name) and n.id.isupper())


def asked_kinds(paths: Iterable[Path], kinds: set[str]) -> int:
    """How often `isinstance` asks for one of some classes."""
    found = 0
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if called and node.func.id == "isinstance" and len(node.args) == 2:  # type: ignore
                names = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}  # type: ignore
                found += bool(names & kinds)
    return found


def public_any(paths: Iterable[Path]) -> int:
    """Signatures of public functions and methods in which `Any` stands."""
    found = 0
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                given = [a.annotation for a in ast.walk(node.args) if isinstance(a, ast.arg)]
                words = [ast.unparse(a) for a in (*given, node.returns) if a is not None]
                found += any("Any" in word.replace("AnyS", "") for word in words)
    return found


def passed_through(root: Path) -> int:
    """Files of the package of which a fit with defaults, all stages, runs a function."""
    sys.path.insert(0, str(root / "src"))
    import numpy as np

    import stitchflow as sf

    rng = np.random.default_rng(0)
    clouds = [rng.normal(k, 1.0, (60, 2)) for k in range(3)]
    method = sf.Stitching(optimiser=sf.Optimiser(steps=500), particles=10, nodes=6)
    package, seen = str(Path(sf.__file__).parent), set()
    sys.setprofile(lambda frame, *_: seen.add(frame.f_code.co_filename))
    sf.fit(sf.Snapshots.from_arrays(clouds, [0.0, 1.0, 2.0]), method, progress=False)
    sys.setprofile(None)
    return sum(name.startswith(package) for name in seen)


def anatomy(root: Path) -> dict[str, float]:
    package = root / "src" / "stitchflow"
    source = sorted(package.rglob("*.py"))
    science = [path for path in source if is_science(path, package)]
    harness = [*(root / "tests").rglob("*.py"), *(root / "benchmarks").rglob("*.py")]
    prose, code = lines_of(source)
    science_prose, science_code = lines_of(science)
    outside = [path for path in science if not str(path).endswith(DEFAULTS)]
    return {
        "modules at the top": len(list(package.glob("*.py"))),
        "folders": len({p.parent for p in source}) - 1,
        "modules": len(source),
        "files a fit passes through": passed_through(root),
        "code lines of src": code,
        "code lines of science": science_code,
        "code lines of tests and benchmarks": lines_of(harness)[1],
        "prose to code, src": round(prose / code, 3),
        "prose to code, science": round(science_prose / science_code, 3),
        "public signatures with Any": public_any(source),
        "isinstance on methods": asked_kinds(source, METHODS),
        "isinstance on terms": asked_kinds(source, TERMS),
        "named numbers of science outside the defaults file": sum(
            len(list(numbers(path))) for path in outside
        ),
        "files over 300 lines": sum(len(p.read_text().splitlines()) > 300 for p in source),
    }


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    print(json.dumps(anatomy(place.resolve()), indent=1))
