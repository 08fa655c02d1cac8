"""The report in a real browser: it plays, complains of nothing, asks for nothing, runs no label."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import stitchflow as sf
from chromium import BROWSER, Chromium
from falling import falling, known_fit, well
from stitchflow._training.history import StageHistory
from stitchflow.report import write_report

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium (Debian: apt-get install chromium)"),
]

HOSTILE = "</script><script>window.hurt = 1</script><img src=x onerror='window.hurt = 2'>"
LAYERS = ("data", "samples", "paths", "land")
PICTURE = "document.getElementById('stage').toDataURL()"


@pytest.fixture(scope="module", params=[1, 2, 5], ids=lambda dim: f"{dim}-D")
def page(request, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    step = np.linspace(15.0, 1500.0, 100)
    parts = {"divergence": 10.0 + 1.0 / step, "residual": 100.0 / step}
    fit = known_fit(
        sf.Potential(well), request.param, [StageHistory("stitching", {"step": step, **parts})]
    )
    data = falling(request.param)
    names = np.array([f"{HOSTILE}{i}" for i in range(len(data.x))])
    groups = np.array([f"{HOSTILE}{i % 3}" for i in range(len(data.x))])
    fit.data, test = replace(data, ids=names, groups=groups).split(0.6, key=0)
    fit.source = {"path": f"/data/{HOSTILE}", "columns": {"features": [HOSTILE] * request.param}}
    fit.status = sf.Status(False, HOSTILE)
    write_report(fit, path, test=test, warned=[HOSTILE])
    return path


@pytest.fixture
def browser(page):
    with Chromium() as opened:
        opened.open(page)
        yield opened
        assert opened.requests == [page.as_uri()]
        assert opened.complaints == []
        assert opened.run("window.hurt") is None


def slide(browser: Chromium, frame: int) -> None:
    browser.run(
        f"(s => {{ s.value = {frame}; s.dispatchEvent(new Event('input')); }})"
        "(document.getElementById('time'))"
    )


def show_only(browser: Chromium, layer: str) -> None:
    for name in LAYERS:
        browser.run(
            f"(b => {{ b.checked = {str(name == layer).lower()}; "
            f"b.dispatchEvent(new Event('change')); }})(document.getElementById('show-{name}'))"
        )


@pytest.mark.parametrize("layer", ["data", "samples", "paths"])
def test_the_slider_moves_points(browser, layer):
    show_only(browser, layer)
    last = int(browser.run("document.getElementById('time').max"))
    pictures = []
    for frame in (0, last // 2, last):
        slide(browser, frame)
        pictures.append(browser.run(PICTURE))
    assert len(set(pictures)) == 3
    slide(browser, 0)
    assert browser.run(PICTURE) == pictures[0]
    assert "time 0" in browser.run("document.getElementById('stage').getAttribute('aria-label')")


def test_play_goes_to_the_end_and_pauses(browser):
    browser.run("document.getElementById('play').click()")
    assert browser.run("document.getElementById('play').textContent") == "Pause"
    browser.wait_for(
        "document.getElementById('time').value === document.getElementById('time').max"
    )
    browser.wait_for("document.getElementById('play').textContent === 'Play'")
    assert browser.run("document.getElementById('clock').textContent") == "t = 3"


def test_keys_walk_through_individuals_and_their_labels_are_text(browser):
    browser.run("document.getElementById('stage').focus()")
    browser.press("ArrowRight")
    first = browser.run("document.getElementById('tip').textContent")
    browser.press("ArrowRight")
    second = browser.run("document.getElementById('tip').textContent")
    assert first != second
    assert first.startswith(HOSTILE)
    assert "t = 0" in first
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.querySelectorAll('script').length") == 2
    browser.press("Escape")
    assert browser.run("document.getElementById('tip').hidden") is True


# Words that would leave a text, an attribute, a template, a script or a comment.
PAYLOADS = (
    "<svg onload=window.hurt=3>",
    "'\"><script>window.hurt=4</script>",
    '" onmouseover="window.hurt=5" autofocus onfocus="window.hurt=6" x="',
    "javascript:window.hurt=7",
    "{{ 7 * 7 }}{% raw %}${window.hurt=8}",
    "--><script>window.hurt=9</script><!--",
    "\u2028\u2029</title><iframe srcdoc='<script>parent.hurt=10</script>'>",
    "&lt;script&gt;window.hurt=11&lt;/script&gt;",
)


def test_no_gene_name_is_ever_code(tmp_path):
    fit, data = known_fit(sf.Potential(well), 2), falling(2)
    labels = np.array([PAYLOADS[i % len(PAYLOADS)] + str(i) for i in range(len(data.x))])
    fit.data, test = replace(data, ids=labels, groups=labels).split(0.6, key=0)
    fit.source = {"path": "/".join(PAYLOADS), "columns": {"features": list(PAYLOADS[:2])}}
    fit.status = sf.Status(False, " ".join(PAYLOADS))
    path = tmp_path / "report.html"
    write_report(fit, path, test=test, warned=PAYLOADS)
    with Chromium() as browser:
        browser.open(path)
        browser.run("document.getElementById('stage').focus()")
        for _ in range(len(PAYLOADS)):  # every kind is shown once as a label
            browser.press("ArrowRight")
        assert browser.run("window.hurt") is None
        assert browser.requests == [path.as_uri()]
        assert browser.complaints == []
        assert browser.run("document.querySelectorAll('script').length") == 2
        assert browser.run("document.querySelectorAll('img, iframe, svg[onload]').length") == 0
        text = browser.run("document.querySelector('.warnings').textContent")
        for payload in PAYLOADS[:5]:
            assert payload in text


def test_pointing_at_an_individual_names_it(browser):
    browser.run("document.getElementById('stage').scrollIntoView()")
    place = browser.run(
        "(() => { const s = document.getElementById('stage'), b = s.getBoundingClientRect();"
        "const d = JSON.parse(document.getElementById('scene').textContent);"
        "const i = d.data.time.indexOf(0), [x, y] = [d.data.at[2 * i], d.data.at[2 * i + 1]];"
        "return [b.left + 50 + x / d.ticks * (b.width - 60),"
        "b.top + 10 + (1 - y / d.ticks) * (b.height - 50)]; })()"
    )
    browser.point_at(*place)
    assert HOSTILE in browser.run("document.getElementById('tip').textContent")


def test_every_control_has_a_name_and_every_picture_a_description(browser):
    unnamed = browser.run(
        "[...document.querySelectorAll('button, input, svg, #stage')].filter(e => !(e.ariaLabel || "
        "e.textContent.trim() || (e.labels && e.labels[0].textContent.trim()))).length"
    )
    assert unnamed == 0


# WCAG's ratio of luminances for every piece of text against the nearest ground that is painted.
FAINT = """(() => {
  const parts = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => parts(c).slice(0, 3).map(v => v / 255).map(
    v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4
  ).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = e => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (parts(c)[3] !== 0) return c;
    }
    return 'rgb(255, 255, 255)';
  };
  const own = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  const shown = [...document.querySelectorAll('body *')].filter(
    e => own(e) && !['SCRIPT', 'NOSCRIPT', 'STYLE'].includes(e.tagName));
  const ratio = e => {
    const style = getComputedStyle(e), ink = e instanceof SVGElement ? style.fill : style.color;
    const [low, high] = [light(ink), light(ground(e))].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  return [shown.length, shown.filter(e => ratio(e) < 4.5).map(e => e.outerHTML.slice(0, 80))];
})()"""


def test_text_stands_out_from_its_ground(browser):
    pieces, faint = browser.run(FAINT)
    assert pieces > 50
    assert faint == []
    browser.run("document.querySelector('.lead').style.color = '#aab'")
    assert len(browser.run(FAINT)[1]) == 1


def test_everything_is_reached_by_the_tabulator(browser):
    reached = set()
    for _ in range(40):
        browser.press("Tab")
        reached.add(browser.run("document.activeElement.id || document.activeElement.tagName"))
    assert {"stage", "play", "time", "show-data", "show-land", "SUMMARY", "A"} <= reached


def test_a_phone_needs_no_sideways_scrolling(page):
    with Chromium(390, 844, mobile=True) as phone:
        phone.open(page)
        assert phone.run("document.documentElement.scrollWidth") <= 390
        assert phone.complaints == []
        assert phone.run("document.getElementById('play').getBoundingClientRect().height") >= 36


def test_the_page_prints(page):
    with Chromium() as browser:
        browser.open(page)
        printed = browser.call("Page.printToPDF", printBackground=True)["data"]
        assert len(printed) > 20_000
        assert browser.complaints == []


def test_names_of_ticks_stay_inside_their_charts(browser):
    names = browser.run(
        "[...document.querySelectorAll('figure svg text')].map(t => {"
        "const a = t.getBoundingClientRect(), b = t.ownerSVGElement.getBoundingClientRect();"
        "return [t.textContent, b.left <= a.left && a.right <= b.right]; })"
    )
    assert "1500" in [name for name, _ in names]
    assert all(inside for _, inside in names), names
