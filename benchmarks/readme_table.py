"""Write the README's table from the committed result lines, or with --check compare it."""

from __future__ import annotations

import json
import sys

from marked_pages import ROOT, put
from paper.tables import Results

ROWS = {
    "stitching, V(x, t)": ("eb-full-varying", "stitching"),
    "stitching, V(x)": ("eb-full", "stitching"),
    "the published method, V(x, t)": ("eb-full-varying", "stitching-paper-varying"),
    "nearest snapshot": ("eb-full", "nearest"),
    "straight optimal transport": ("eb-full", "ot-linear"),
}
PROTOCOLS = ("marginal", "one-step", "rollout")


def table() -> str:
    lines = (ROOT / "results" / "paper.jsonl").read_text().splitlines()
    results = Results(json.loads(line) for line in lines)
    names = ("method", *PROTOCOLS, "training, s", "command")
    text = f"| {' | '.join(names)} |\n{'|---' * len(names)}|\n"
    for name, (task, method) in ROWS.items():
        cells = [results.cell(task, p, "w1", method=method) for p in PROTOCOLS]
        place = (task, "marginal", "w1")
        seconds = results.mean(*place, method=method, column="seconds_train")
        command = f"`stitchflow bench {task} --method {method}`"
        text += f"| {name} | {' | '.join(cells)} | {seconds:.0f} | {command} |\n"
    floors = [results.mean("eb-full", p, "w1", column="floor") for p in PROTOCOLS]
    return text + f"| floor | {' | '.join(f'{floor:.3f}' for floor in floors)} | | |\n"


def main() -> None:
    path = ROOT / "README.md"
    updated = put(path, "table: benchmarks/readme_table.py", table())
    if "--check" in sys.argv:
        same = updated == path.read_text(encoding="utf-8")
        sys.exit(0 if same else "README.md differs: run benchmarks/readme_table.py")
    path.write_text(updated, encoding="utf-8")


if __name__ == "__main__":
    main()
