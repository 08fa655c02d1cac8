"""Scores as rows, and tables of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from stitchflow._status import require


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

    >>> Scores([Row("marginal", "w1", None, 0.52, None)]).mean("marginal")
    0.52
    """

    def to_pandas(self) -> Any:
        """A data frame with one row for each score."""
        return require("pandas", "data").DataFrame([asdict(row) for row in self])

    def mean(self, protocol: str, metric: str = "w1") -> float:
        """The mean over times of one `protocol` and `metric`; a `KeyError` where there is none."""
        for row in self:
            if (row.protocol, row.metric, row.time) == (protocol, metric, None):
                return row.value
        raise KeyError(f"no mean of {metric} under {protocol} among these scores")

    def __rich__(self) -> Any:
        return table({"value": self})

    def __str__(self) -> str:
        return as_text(self, 100)

    __repr__ = __str__


def as_text(view: Any, width: int) -> str:
    """What rich prints of a `view` in lines of this `width`."""
    from rich.console import Console

    console = Console(width=width)
    with console.capture() as text:
        console.print(view)
    return text.get()


def table(columns: dict[str, Scores], title: str | None = None) -> Any:
    """A table, for rich, of the scores of one or several methods side by side.

    Arguments:
        columns: scores by the heading of their column; the floor is that of the first.
        title: the title of the table; None for none.
    """
    from rich.table import Table

    view = Table(title=title)
    for name in ("protocol", "metric", "time"):
        view.add_column(name)
    for name in (*columns, "floor"):
        view.add_column(name, justify="right")
    found = [{(r.protocol, r.metric, r.time): r for r in rows} for rows in columns.values()]
    last = None
    for place, row in found[0].items():
        if last is not None and place[:2] != last:
            view.add_section()
        last = place[:2]
        values = [f"{rows[place].value:.4g}" if place in rows else "-" for rows in found]
        floor = "-" if row.floor is None else f"{row.floor:.4g}"
        time = "mean" if row.time is None else f"{row.time:g}"
        view.add_row(row.protocol, row.metric, time, *values, floor)
    return view
