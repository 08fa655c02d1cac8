"""Short text in terminals, tables in notebooks."""

import numpy as np

import stitchflow as sf
from falling import falling, known_fit, three_stages, well
from stitchflow._html import table
from stitchflow._training.history import StageHistory


def test_tables_escape_what_they_are_given():
    text = table("<b>", [("<i>", "<u>")], ("&",))
    assert "&lt;b&gt;" in text
    assert "<td>&lt;u&gt;</td>" in text
    assert "<i>" not in text
    assert "<th>&amp;</th>" in text


def test_snapshots_show_the_count_of_each_time():
    html = falling(n=1234)._repr_html_()
    assert html.count("1,234") == 4
    assert "4 times from 0 to 3, 4936 individuals, 2 dimensions" in html
    many = sf.Snapshots.from_arrays([np.zeros((2, 1))] * 100, np.arange(100))
    assert "80 more" in many._repr_html_()
    assert many._repr_html_().count("<tr>") == 22


def test_an_energy_shows_its_terms_before_and_after_it_is_fitted():
    energy = sf.Potential(hidden=(8, 8)) + sf.Entropy(beta=0.25, learn=False)
    assert "hidden = (8, 8)" in energy._repr_html_()
    assert "0.25" in energy._repr_html_()
    known = sf.Energy.known(energy, 2)
    assert '<th style="text-align:left">beta</th><td>0.25</td>' in known._repr_html_()
    assert "\n" not in repr(known)


def test_a_fit_shows_how_it_ended():
    fit = known_fit(
        sf.Potential(well), history=[StageHistory("own", {"residual": np.array([2.0, 0.125])})]
    )
    html = fit._repr_html_()
    for word in ("Fit by stitching", "known", "0.125", "150 individuals"[4:]):
        assert word in html
    assert repr(fit) == "Fit(stitching: known)"
    fit.data = None
    assert "times" in fit._repr_html_()


def test_a_fit_shows_every_stage():
    """The first stage's numbers are not where a fit with three ended."""
    fit = known_fit(sf.Potential(well), history=three_stages())
    html, lines = fit._repr_html_(), fit.summary().splitlines()
    cell = '<th style="text-align:left">{}</th><td>{}</td>'
    for name, value in (
        ("divergence, stitching", "4"),
        ("residual, stitching", "0.5"),
        ("consistency, consistency", "0.03"),
        ("residual, consistency", "0.25"),
        ("divergence, settling", "3"),
        ("residual, settling", "0.125"),
    ):
        assert cell.format(name, value) in html
    assert "consistency: loss 2, consistency 0.03, residual 0.25" in lines
    assert "settling: loss 1, divergence 3, residual 0.125" in lines
