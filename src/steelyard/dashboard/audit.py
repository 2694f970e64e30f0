"""A line for every change that was made, or tried, through the page: who, what, and how it ended."""

import json
import logging
import os
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["AUDIT", "write_audit_line"]

AUDIT = "steelyard.page.audit"
"""The name of the log that gets the lines."""

_log = logging.getLogger(AUDIT)
_LONGEST = 2_000


def write_audit_line(file: Path | None, who: str, what: str, outcome: str) -> None:
    """Say in the log, and in a file if there is one, who changed what."""
    who, what, outcome = (_one_line(each) for each in (who, what, outcome))
    _log.warning("audit: %s: %s: %s", who, what, outcome)
    if file is None:
        return
    row = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "who": who, "what": what, "outcome": outcome}
    try:
        with open(file, "a", encoding="utf-8", opener=_private) as lines:
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
    except OSError as error:
        _log.warning("the audit line could not be added to %s: %s", file, error)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _one_line(text: str) -> str:
    """Return a text that cannot pretend to be two lines, or to be another one."""
    seen = (
        text
        if text.isprintable()
        else "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    )
    return seen if len(seen) <= _LONGEST else seen[:_LONGEST] + "…"
