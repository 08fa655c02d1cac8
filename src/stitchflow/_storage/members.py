"""The members of an ensemble, in one file beside the run whose uncertainty they show."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._files.archive import Archive
from stitchflow._files.whole import write_atomically
from stitchflow._status import BadInput
from stitchflow._stitching.ensemble import Ensemble
from stitchflow._storage.run_state import MEMBERS
from stitchflow._storage.save import from_plain, packed, plain


def write_members(ensemble: Ensemble, folder: Path) -> None:
    """Write the bootstrapped fits of `ensemble` into the run in `folder`, whose lock must be held.

    The file has the JSON header of every member in `headers`, and its arrays as `number/name`.
    """
    headers, arrays = [], {}
    for i, member in enumerate(ensemble.members):
        header, own = plain(member)
        headers.append(json.dumps(header))
        arrays |= {f"{i}/{name}": array for name, array in own.items()}
    write_atomically(folder / MEMBERS, packed({"headers": np.array(headers), **arrays}))


def read_members(folder: Path, data: Snapshots | None) -> Ensemble | None:
    """The bootstrapped fits that are stored in the run in `folder`; None without any.

    Arguments:
        folder: the directory of the run.
        data: the individuals that the run was trained on, of which each member had a bootstrap;
            without them the spread of the members cannot be told, and the result is None.
    """
    path = folder / MEMBERS
    if data is None or not path.is_file():
        return None
    try:
        stored = Archive(path.read_bytes()).all()
        members = []
        for i, header in enumerate(stored.pop("headers").tolist()):
            named = {name.partition("/") for name in stored}
            own = {rest: stored[f"{i}/{rest}"] for k, _, rest in named if k == str(i)}
            members.append(from_plain(json.loads(header), own, None, None))
    except (KeyError, ValueError) as error:
        raise BadInput(f"{path}: cannot be read ({error})") from None
    for member in members:
        member.data = data
    return Ensemble(members, bootstrap=True)
