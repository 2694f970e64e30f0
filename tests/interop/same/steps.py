"""A step of a script: one request, as data, that is put to Apache's servers and to ours.

Texts may name what earlier steps of the script were told, as ``$name``: `Step.keep` says which fields of its answer a
step leaves behind. Always there: ``$now``, ``$broker`` and ``$names`` (addresses), ``$port``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from steelyard.wire.codes import HeaderType, Version

Json = Mapping[str, object] | list[object]

BROKER, NAMES = "broker", "names"
"""Whom a step is put to."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request, and how its answer is looked at."""

    name: str
    code: int
    fields: Mapping[str, object] = field(default_factory=dict)
    body: bytes | Json = b""
    to: str = BROKER
    connection: str = "a"
    """Steps with the same letter share a line, as the requests of one client do."""
    header_type: HeaderType = HeaderType.JSON
    version: int = int(Version.V5_5_0)
    language: str = "JAVA"
    oneway: bool = False
    until: Mapping[str, str] = field(default_factory=dict)
    """Asked again until the answer says this: a broker may take a moment to know what it was told."""
    keep: Mapping[str, str] = field(default_factory=dict)
    """By field of the answer, the name under which later steps know it; ``position`` is read out of ``msgId``."""
    expects: tuple[str, int] | None = None
    """A line, and what is asked or told on it by the server soon afterwards."""
    silent: bool = False
    """Whether no answer is thinkable: then it is not waited for long."""
    in_4: bool = True
    """Whether 4.9 is asked as well."""


@dataclass(frozen=True, slots=True)
class Script:
    """Steps that build on each other; scripts do not."""

    name: str
    steps: tuple[Step, ...]
