"""The two pictures of docs/report.md: the whole report of a run, on a desk and on a phone.

`python benchmarks/screenshots.py stitchflow-demo`, after `make demo`; needs Chromium.
"""

import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from chromium import Chromium  # noqa: E402

SIZES = {"desktop": (1100, 900, False), "phone": (390, 844, True)}
# A time at which the population is on its way.
MIDWAY = """(s => { s.value = Math.round(s.max * 0.3); s.dispatchEvent(new Event('input')); })(
    document.getElementById('time'))"""

report = Path(sys.argv[1]) / "report.html"
for name, size in SIZES.items():
    with Chromium(*size) as browser:
        browser.open(report)
        browser.run(MIDWAY)
        browser.screenshot(picture := ROOT / "docs" / "images" / f"report-{name}.png")
        assert browser.complaints == [], browser.complaints
    Image.open(picture).quantize(256).save(picture, optimize=True)  # a third of the size
print(f"{report}: {report.stat().st_size / 1e6:.2f} MB")
