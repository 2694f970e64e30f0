"""Audit log: one entry for every change that was made, or tried, through the dashboard: who, what, and the outcome."""

import json
import logging
import os
from datetime import UTC, datetime
from pathlib import Path

_AUDIT_LOGGER = "steelyard.dashboard.audit"  # the logger of the entries

_log = logging.getLogger(_AUDIT_LOGGER)
_MAX_LENGTH = 2_000


def write_audit_entry(file: Path | None, requester: str, action: str, outcome: str) -> None:
    """Write to the log, and to the file if there is one, who changed what."""
    requester, action, outcome = (_one_line(each) for each in (requester, action, outcome))
    _log.warning("audit: %s: %s: %s", requester, action, outcome)
    if file is None:
        return
    row = {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "who": requester,
        "what": action,
        "outcome": outcome,
    }
    try:
        with open(file, "a", encoding="utf-8", opener=_open_private) as entries:
            entries.write(json.dumps(row, ensure_ascii=False) + "\n")
    except OSError as error:
        _log.warning("the audit entry could not be written to %s: %s", file, error)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _one_line(text: str) -> str:
    """Return a text that cannot forge a second entry."""
    safe = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    return safe if len(safe) <= _MAX_LENGTH else safe[:_MAX_LENGTH] + "…"
