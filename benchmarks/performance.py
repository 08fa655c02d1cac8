"""The tables and the picture of `docs/performance.md`, from result lines alone."""

from __future__ import annotations

from pathlib import Path

import costs
import quality
import scale
import speed

from stitchflow.bench._runs import read_lines

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
END = "<!-- end -->"


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for script in (speed, quality, costs, scale):
        start = f"<!-- table: benchmarks/{script.__name__}.py -->"
        before, rest = page.split(start)
        after = rest.split(END, 1)[1]
        page = f"{before}{start}\n{script.table(read_lines(script.LINES))}\n{END}{after}"
    PAGE.write_text(page, encoding="utf-8")
    costs.draw(read_lines(costs.LINES))


if __name__ == "__main__":
    main()
