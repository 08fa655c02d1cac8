"""Write the README's table from the committed result lines, or with --check compare it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
START, END = "<!-- table: benchmarks/readme_table.py -->\n", "<!-- end -->"
NAMES = {
    "stitching-varying": "stitching, V(x, t)",
    "stitching": "stitching, V(x)",
    "nearest": "nearest snapshot",
    "ot-linear": "straight optimal transport",
}
PROTOCOLS = ("marginal", "one-step", "rollout")


def table() -> str:
    lines = (ROOT / "results" / "eb.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    means = {
        (row["method"], row["protocol"]): row
        for row in rows
        if row["metric"] == "w1" and row["time"] is None
    }
    names = ("method", *PROTOCOLS, "training, s", "command")
    text = f"| {' | '.join(names)} |\n{'|---' * len(names)}|\n"
    for method, name in NAMES.items():
        cells = [f"{means[method, p]['value']:.3f}" for p in PROTOCOLS]
        seconds = f"{means[method, 'marginal']['seconds_train']:.0f}"
        text += f"| {name} | {' | '.join(cells)} | {seconds} | `make results` |\n"
    floors = [f"{means['stitching', p]['floor']:.3f}" for p in PROTOCOLS]
    return text + f"| floor | {' | '.join(floors)} | | |\n"


def main() -> None:
    path = ROOT / "README.md"
    readme = path.read_text()
    head, _, rest = readme.partition(START)
    _, _, tail = rest.partition(END)
    updated = head + START + table() + END + tail
    if "--check" in sys.argv:
        sys.exit(0 if updated == readme else "README.md differs: run benchmarks/readme_table.py")
    path.write_text(updated)


if __name__ == "__main__":
    main()
