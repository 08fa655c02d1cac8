"""Numbers that are written as text, in the conventions of the world."""

import pytest

from stitchflow._reading.numerals import is_numeral, is_plain, read_numerals


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "-2.5", "+.5", "3.", "1e-3"], [1.0, -2.5, 0.5, 3.0, 0.001]),
        (["2,5", "3,25"], [2.5, 3.25]),
        (["2,5", "1,200"], [2.5, 1.2]),
        (["0,200"], [0.2]),  # no group of thousands begins with zero
        (["-,5", "2,5e-1"], [-0.5, 0.25]),
        (["1,200,000", "2,300", "4"], [1.2e6, 2300.0, 4.0]),
        (["1,200.5", "0.25"], [1200.5, 0.25]),
        (["1.200,5", "0,25"], [1200.5, 0.25]),
        (["1.200.000", "0,25"], [1.2e6, 0.25]),
        (["2.5%", "3 %"], [0.025, 0.03]),
        (["2,5%"], [0.025]),
        (["\u22122,5", " 1 "], [-2.5, 1.0]),  # the minus of typesetters
    ],
)
def test_what_can_be_meant_in_one_way_is_read(texts, expected):
    assert read_numerals(texts) == pytest.approx(expected, rel=1e-15)
    assert all(map(is_numeral, texts))


@pytest.mark.parametrize(
    "texts",
    [
        ["1,200", "2,300"],  # 1.2 and 1200 are both written so
        ["1,200", "3.5"],
        ["1.250", "0,5"],  # a slip in a column of decimal points, or thousands?
        ["2.5%", "3"],
        ["1 200", "2'300"],
        ["1,2,3"],
        ["1.2.3"],
    ],
)
def test_what_can_be_meant_in_several_ways_is_not_read(texts):
    assert read_numerals(texts) is None
    assert all(map(is_numeral, texts))


@pytest.mark.parametrize(
    "text", ["", ".", ",", "-", "%", "left", "E8.5", "2024-01-01", "1:30", "1x"]
)
def test_words_are_no_numbers(text):
    assert read_numerals([text]) is None
    assert not is_numeral(text)
    assert not is_plain(text)
