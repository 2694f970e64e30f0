"""`steelyard cluster export`: a cluster as JSON files, to be kept, compared or taken elsewhere.

A file is there whole or not at all. What is there already is replaced only if that is wanted.
"""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.frame.confirming import Yes, confirm
from steelyard.cli.frame.output import Column, Out, plain
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.errors import ConfigurationError

__all__ = ["export"]

_FILES = {
    "topics": "topics.json",
    "groups": "groups.json",
    "settings": "settings.json",
    "metrics": "metrics.json",
}


@at_cluster
def export(
    where: Where,
    out: Out,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where to write.", show_default=False)],
    yes: Yes = False,
) -> None:
    """Write topics, groups, settings and metrics as JSON files.

    `steelyard topic apply` and mqadmin's updateTopicList read topics.json again, and `steelyard group apply` and
    updateSubGroupList groups.json. What is secret in settings is left out.
    """
    import msgspec

    from steelyard.client.blocking.admin import Admin

    there = sorted(name for name in _FILES.values() if (to / name).exists())
    if there:
        confirm(f"{to} has {', '.join(there)} already, and they would be replaced", yes)
    with Admin(where.connect()) as admin:
        found = admin.export()
    rows = []
    for part, name in _FILES.items():
        value = getattr(found, part)
        _write(to / name, msgspec.json.format(msgspec.json.encode(plain(value)), indent=2) + b"\n")
        entries = len(value) if isinstance(value, list) else None
        rows.append({"file": str(to / name), "entries": entries, "bytes": (to / name).stat().st_size})
    out.rows([Column("file"), Column("entries", right=True), Column("bytes", right=True)], rows)


def _write(path: Path, text: bytes) -> None:
    beside = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(text)
        beside.replace(path)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}", next_step="give another --to") from None
