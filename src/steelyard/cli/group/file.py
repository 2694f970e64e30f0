"""Groups from a file: JSON objects with our names of settings, or with mqadmin's."""

from collections.abc import Iterable
from dataclasses import fields

import msgspec

from steelyard.cli.frame.objects import read_objects
from steelyard.client.admin.group_rules import GroupRules
from steelyard.client.nearest import nearest
from steelyard.errors import ConfigurationError
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.groups import GroupSettings

__all__ = ["groups_of", "read_groups"]

_HOW = 'write a group as {"name": "billing", "retries": 3}, and several as a list or one a line'


def read_groups(source: str) -> list[GroupRules]:
    """Read groups from a file, or from stdin."""
    return groups_of(read_objects(source, _HOW))


def groups_of(found: Iterable[object]) -> list[GroupRules]:
    """Return the groups in what was read.

    >>> groups_of([{"name": "billing", "retries": 3}])[0].retries
    3
    >>> groups_of([{"groupName": "billing", "retryMaxTimes": 3}])[0].retries
    3
    """
    groups: dict[str, GroupRules] = {}
    for each in map(_group, found):
        if each.name in groups:
            raise ConfigurationError(f"group {each.name!r} is there twice", next_step="leave one of them out")
        groups[each.name] = each
    if not groups:
        raise ConfigurationError("there is no group in it", next_step=_HOW)
    return list(groups.values())


def _group(entry: object) -> GroupRules:
    if not isinstance(entry, dict):
        raise ConfigurationError(f"{str(entry)[:60]!r} is no group", next_step=_HOW)
    if "groupName" in entry:
        settings = decode_body(GroupSettings, msgspec.json.encode(entry))
        return GroupRules.of(settings, settings.name)
    known = [field.name for field in fields(GroupRules)]
    for key in entry:
        if key not in known:
            meant = nearest(key, known)
            raise ConfigurationError(
                f"a group has no setting {key!r}",
                next_step=f"did you mean {meant!r}?" if meant else f"there are {', '.join(known)}",
            )
    try:
        return msgspec.convert(entry, GroupRules)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"a group cannot be read ({error})", next_step=_HOW) from None
