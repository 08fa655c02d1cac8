"""The built wheel on every Python the machine has, and on what came before the newest packages.

`make pythons` runs this; each environment is new, and stays in `build/pythons` to be looked at.
"""

import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "pythons"
OLDEST = (3, 11)
# Data, loop, a fit, its file, AnnData and what is drawn in notebooks, within a minute or so.
QUICK = ("snapshots", "metrics", "optimise", "tracking", "tl", "tl_fates", "reprs")
# The versions before; CellRank's wants the SciPy, AnnData's the pandas and zarr of its own time.
BEFORE = ("anndata<0.12", "scanpy<1.11", "cellrank<2.0.7", "scipy<1.14", "pandas<3", "zarr<3")


def run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def interpreters() -> dict[tuple[int, ...], Path]:
    """Every Python from 3.11 on, by version: this one, those on the PATH and pyenv's."""
    named = filter(None, (shutil.which(f"python3.{minor}") for minor in range(OLDEST[1], 30)))
    places = [Path(sys.executable), *map(Path, named)]
    places += sorted(Path.home().glob(".pyenv/versions/*/bin/python"))
    found: dict[tuple[int, ...], Path] = {}
    for place in places:
        code = "import sys; print(*sys.version_info[:2])"
        asked = subprocess.run([place, "-c", code], capture_output=True, text=True)
        if asked.returncode == 0:  # pyenv's shims exist for versions that are switched off
            version = tuple(map(int, asked.stdout.split()))
            if version >= OLDEST:
                found.setdefault(version, place)
    return dict(sorted(found.items()))


def passes(python: Path, name: str, started: float, *more: str) -> None:
    """Run the quick tests and say how long everything since `started` took."""
    files = [ROOT / "tests" / f"test_{part}.py" for part in QUICK]
    said = run(python, "-m", "pytest", "-p", "no:cacheprovider", *files, *more).splitlines()[-1]
    versions = run(python, "-c", "import jax, numpy; print(jax.__version__, numpy.__version__)")
    jax, numpy = versions.split()
    seconds = time.monotonic() - started
    print(f"{name}, jax {jax}, numpy {numpy}: {said}; {seconds:.0f} s in all", flush=True)


def installed(place: Path, folder: Path, *wanted: str) -> Path:
    """The Python of a new environment with what is wanted."""
    run(place, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", *wanted)
    return python


def main() -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", WORK, ROOT)
    (wheel,) = WORK.glob("stitchflow-*.whl")

    def newest(version: tuple[int, ...], place: Path) -> Path:
        started, name = time.monotonic(), ".".join(map(str, version))
        python = installed(place, WORK / name, f"{wheel}[test]")
        passes(python, f"Python {name}", started)
        return python

    found = interpreters()
    with ThreadPoolExecutor(2) as pool:
        oldest, *_ = pool.map(newest, found, found.values())
    started, jax = time.monotonic(), run(oldest, "-c", "import jax; print(jax.__version__)")
    older = f"jax<{'.'.join(jax.split('.')[:2])}"
    before = installed(oldest, WORK / "before", f"{wheel}[test,anndata]", older, *BEFORE)
    cellrank = ROOT / "tests" / "test_tl_cellrank.py"
    passes(before, "versions before", started, str(cellrank), "-m", "full or not full")


if __name__ == "__main__":
    main()
