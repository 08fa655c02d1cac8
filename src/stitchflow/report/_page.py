"""The page itself: contents put into the template, everything of the user's escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from stitchflow._data.snapshots import Snapshots
from stitchflow._files.whole import write_atomically
from stitchflow._judging.identifiability import FORCES
from stitchflow._judging.protocols import Protocol
from stitchflow._method.contract import Fit
from stitchflow._stitching.ensemble import Ensemble
from stitchflow.report._contents import Contents, Line, gather
from stitchflow.report._line_charts import HEIGHT, RIGHT, WIDTH

MARKS = {"good": "✓", "fair": "~", "poor": "✗", "open": "?"}


def write_report(
    fit: Fit | Ensemble,
    path: Any,
    *,
    test: Snapshots | None = None,
    versions: dict[str, str | None] | None = None,
    warned: Sequence[str] = (),
    members: Ensemble | None = None,
) -> None:
    """Write one self-contained HTML page about a fit.

    The page contains a verdict, scores beside those of trivial methods, a diagnosis, charts and all
    settings. It needs no network. An existing file is replaced.

    Arguments:
        fit: a fit, or an ensemble, of which the first member and the spread are shown.
        path: the file to write.
        test: individuals that the fit has not seen, on which the scores and the verdict rest; None
            leaves the scores out.
        versions: the versions of packages to show by name; None means the installed ones.
        warned: sentences to show among the warnings, before those that the report itself finds.
        members: fits to bootstraps of the same data, whose spread is shown beside `fit`; None shows
            none.

    Examples:
        >>> sf.report.write_report(fit, "report.html", test=test)     # doctest: +SKIP
    """
    environment = _environment()
    contents = gather(fit, test, versions, warned, members)
    # The name of a file need not be text.
    page = render(contents, environment).encode(errors="backslashreplace")
    write_atomically(Path(path), page)


def render(contents: Contents, environment: Any = None) -> str:
    """The page as text.

    Arguments:
        contents: everything the page shows.
        environment: Jinja's environment; None makes one.

    Returns:
        HTML.
    """
    environment = _environment() if environment is None else environment
    folder = files("stitchflow.report")
    read = lambda name: (folder / name).read_text("utf-8")
    style, script = read("page.css"), read("landscape.js") + read("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.from_string(read("page.html")).render(
        contents=contents,
        style=style,
        script=script,
        digest=digest,
        questions={protocol: protocol.question for protocol in Protocol},
        marks=MARKS,
        scale=max((v for line in contents.means for v in _known(line)), default=1.0),
        chart={"width": WIDTH, "height": HEIGHT, "end": WIDTH - RIGHT},
        diagnosis=contents.diagnosis,
        forces=FORCES,
    )


def _known(line: Line) -> list[float]:
    return [value for value in (*line.values, line.floor) if value is not None]


def _environment() -> Any:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise ImportError("a report needs jinja2; install stitchflow[report]") from None
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    made.policies["json.dumps_kwargs"] = {"allow_nan": False}  # a browser reads no NaN
    return made
