"""Small tables for notebooks; everything that goes in is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(title: str, rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """A caption, optional names of columns, and rows whose first entry names them."""
    named = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = [f"<thead><tr>{named}</tr></thead>"] if head else []
    for first, *rest in rows:
        cells = "".join(f"<td>{escape(str(entry))}</td>" for entry in rest)
        lines.append(f'<tr><th style="text-align:left">{escape(str(first))}</th>{cells}</tr>')
    caption = f'<caption style="text-align:left"><b>{escape(title)}</b></caption>'
    return f"<table>{caption}{''.join(lines)}</table>"
