"""Floors of result lines once more, without a fit: they follow from a task and its seed alone.

    python benchmarks/refloor.py results/paper.jsonl results/rivals.jsonl --only wavy-valley

Values, times and everything else of a line stay as they are. Lines of tasks without an oracle
whose individuals nobody follows keep their floors, and so do lines that were made with other data
than the task has now, which are counted.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from stitchflow._files.whole import write_atomically
from stitchflow._judging.evaluate import floors
from stitchflow._judging.judge import Judge
from stitchflow._judging.protocols import PROTOCOLS
from stitchflow._types import as_key
from stitchflow.bench._tasks import TASKS
from stitchflow.metrics import DISTANCES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--only", help="tasks whose name begins so", default="")
    chosen = parser.parse_args()
    stored = {path: path.read_text(encoding="utf-8").splitlines() for path in chosen.files}
    groups: dict[tuple, list[tuple[Path, int, dict[str, Any]]]] = defaultdict(list)
    for path, lines in stored.items():
        for i, row in enumerate(map(json.loads, lines)):
            scored = row.get("protocol") in PROTOCOLS and row.get("metric") in DISTANCES
            if scored and row["task"] in TASKS and row["task"].startswith(chosen.only):
                place = row["task"], row["seed"], row.get("euler", False)
                groups[place].append((path, i, row))
    for place, rows in groups.items():
        start = time.perf_counter()
        changed, other = refloor(*place, [row for _, _, row in rows])
        for path, i, row in rows:
            if id(row) in changed:
                stored[path][i] = json.dumps(row)
        seconds = time.perf_counter() - start
        said = f"{len(rows)} lines, {len(changed)} floors changed, {other} lines of other data"
        print(*place, said, f"{seconds:.1f} s", flush=True)
    for path, lines in stored.items():
        write_atomically(path, ("\n".join(lines) + "\n").encode())


def refloor(task: str, seed: int, euler: bool, rows: list[dict[str, Any]]) -> tuple[set[int], int]:
    """Write the floors of one task into its rows: which of them changed, how many do not belong."""
    problem = TASKS[task].problem(seed, euler)
    if problem.oracle is None and problem.test.ids is None:
        return set(), 0
    mine = [row for row in rows if row["data"] == problem.fingerprint]
    train, test, changed = problem.train, problem.test, set()
    for protocol in dict.fromkeys(row["protocol"] for row in mine):
        asked = [row for row in mine if row["protocol"] == protocol]
        metrics = tuple(name for name in DISTANCES if any(r["metric"] == name for r in asked))
        judge = Judge(train, train.times, test, metrics, as_key(0), problem.oracle)
        found = floors(judge, protocol)
        for row in asked:
            floor = found.get((row["metric"], row["time"]))
            if row["floor"] != floor:
                row["floor"] = floor
                changed.add(id(row))
    return changed, len(rows) - len(mine)


if __name__ == "__main__":
    main()
