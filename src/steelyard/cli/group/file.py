"""Groups from a file, as JSON objects."""

from steelyard.cli.frame.objects import read_objects
from steelyard.client.admin.group_rules import GroupRules, rules_of
from steelyard.errors import ConfigurationError

__all__ = ["read_groups"]

_HOW = 'write a group as {"name": "billing", "retries": 3}, and several as a list or one a line'


def read_groups(source: str) -> list[GroupRules]:
    """Read groups from a file, or from stdin."""
    groups: dict[str, GroupRules] = {}
    for each in map(rules_of, read_objects(source, _HOW)):
        if each.name in groups:
            raise ConfigurationError(f"group {each.name!r} is there twice", next_step="leave one of them out")
        groups[each.name] = each
    if not groups:
        raise ConfigurationError("there is no group in it", next_step=_HOW)
    return list(groups.values())
