"""The tables and the picture of `docs/performance.md`, from result lines alone."""

import costs
import quality
import scale
import speed

from pages import ROOT, fill
from stitchflow.bench._runs import read_lines

if __name__ == "__main__":
    for script in (speed, quality, costs, scale):
        mark = f"table: benchmarks/{script.__name__}.py"
        fill(ROOT / "docs" / "performance.md", mark, script.table(read_lines(script.LINES)))
    costs.draw(read_lines(costs.LINES))
