"""The tables and the picture of `docs/performance.md`, from result lines alone."""

import costs
import quality
import scale
import speed
from marked_pages import ROOT, fill
from stitchflow._files.lines import read_lines

PICTURE = "![Milliseconds a step against cells, particles, nodes, dimensions](figures/costs.png)"

if __name__ == "__main__":
    for script in (speed, quality, costs, scale):
        rows = read_lines(script.LINES)
        text = script.table(rows) if rows else "Not measured yet."
        if rows and script is costs:
            costs.draw(rows)
            text += f"\n\n{PICTURE}"
        fill(ROOT / "docs" / "performance.md", f"table: benchmarks/{script.__name__}.py", text)
