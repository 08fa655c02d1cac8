"""Scores as rows, and tables of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stitchflow._status import require

WIDTH = 80  # characters in a line of a table: what a terminal has


@dataclass(frozen=True)
class Row:
    """One score of `evaluate`.

    Arguments:
        protocol: what was asked, such as `one-step`.
        metric: the distance, such as `w1`.
        time: the time of the score; None for the mean over times, without the first.
        value: the value of the metric; smaller is better.
        floor: what a perfect model is expected to score; None where it is unknown.

    >>> Row("marginal", "w1", 1.0, 0.52, None).value
    0.52
    """

    protocol: str
    metric: str
    time: float | None
    value: float
    floor: float | None


class Scores(list[Row]):
    """The rows of an evaluation, as a list that prints as a table.

    Arguments:
        iterable: the rows.

    Attributes:
        start: the first observed time, which means over times leave out; None if unknown.

    >>> Scores([Row("marginal", "w1", None, 0.52, None)]).mean("marginal")
    0.52
    """

    start: float | None = None

    def to_pandas(self) -> Any:
        """A data frame with one row for each score."""
        return require("pandas", "data").DataFrame([asdict(row) for row in self])

    def mean(self, protocol: str, metric: str = "w1") -> float:
        """The mean over times of one `protocol` and `metric`; a `KeyError` where there is none."""
        for row in self:
            if (row.protocol, row.metric, row.time) == (protocol, metric, None):
                return row.value
        raise KeyError(f"no mean of {metric} under {protocol} among these scores")

    def averaged(self, protocol: str, metric: str = "w1") -> list[float]:
        """The times that the mean of one `protocol` and `metric` is taken over."""
        rows = (row for row in self if (row.protocol, row.metric) == (protocol, metric))
        times = (row.time for row in rows if row.time is not None)
        return [t for t in times if self.start is None or t > self.start]

    def by(self, metrics: Collection[str]) -> Scores:
        """The scores of these `metrics` alone."""
        kept = Scores(row for row in self if row.metric in metrics)
        kept.start = self.start
        return kept

    def __rich__(self) -> Any:
        return table({"value": self})

    def __str__(self) -> str:
        return as_text(self, WIDTH)

    __repr__ = __str__


def as_text(view: Any, width: int) -> str:
    """What rich prints of a `view` in lines of this `width`."""
    from rich.console import Console

    console = Console(width=width)
    with console.capture() as text:
        console.print(view)
    return text.get()


def broken(name: str) -> str:
    """A long heading in lines that end at its hyphens, so that its column need not be wide."""
    return name if len(name) <= 10 else name.replace("-", "-\n")


def fitting(names: list[str], room: int) -> list[list[str]]:
    """The `names` of columns in parts whose headings and numbers take at most `room` characters.

    >>> fitting(["stitching-varying", "nearest", "ot-linear"], 23)
    [['stitching-varying', 'nearest'], ['ot-linear']]
    """
    parts: list[list[str]] = [[]]
    used = 0
    for name in names:
        wide = max(7, *map(len, broken(name).split("\n"))) + 3  # and the space between
        if parts[-1] and used + wide > room:
            parts.append([])
            used = 0
        parts[-1].append(name)
        used += wide
    return parts


def table(columns: dict[str, Scores], title: str | None = None) -> Any:
    """A table, for rich, of the scores of one or several methods side by side.

    Arguments:
        columns: scores by the heading of their column; the floor is that of the first.
        title: the title of the table; None for none.
    """
    from rich import box
    from rich.table import Table

    view = Table(title=title, box=box.SIMPLE_HEAD)
    for name in ("protocol", "metric", "time"):
        view.add_column(name)
    for name in (*map(broken, columns), "floor"):
        view.add_column(name, justify="right")
    found = [{(r.protocol, r.metric, r.time): r for r in rows} for rows in columns.values()]
    first = next(iter(columns.values()))
    last = None
    for place, row in found[0].items():
        if last is not None and place[:2] != last:
            view.add_section()
        last = place[:2]
        values = [f"{rows[place].value:.4g}" if place in rows else "-" for rows in found]
        floor = "-" if row.floor is None else f"{row.floor:.4g}"
        time = f"{row.time:g}" if row.time is not None else _mean_over(first, *place[:2])
        view.add_row(row.protocol, row.metric, time, *values, floor)
    return view


def _mean_over(scores: Scores, protocol: str, metric: str) -> str:
    """The heading of a mean: it says which times it is taken over, where they are shown."""
    times = scores.averaged(protocol, metric)
    return f"mean of\n{in_words(times)}" if times else "mean"


def in_words(times: Sequence[float], most: int = 4) -> str:
    """Times as a short text.

    >>> in_words([1.0, 2.0, 4.0]), in_words(range(1, 10))
    ('1, 2, 4', '9 times, 1 to 9')
    """
    if len(times) <= most:
        return ", ".join(f"{t:g}" for t in times)
    return f"{len(times)} times, {times[0]:g} to {times[-1]:g}"
