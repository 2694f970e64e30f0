"""The settings of consumer groups; who is in a group right now is in members.py."""

from collections.abc import Callable, Iterator

from steelyard.broker.names import check_group
from steelyard.broker.options import BrokerOptions
from steelyard.broker.refusals import refusal
from steelyard.broker.room import Room
from steelyard.broker.versions import next_version
from steelyard.model.names import SYSTEM_GROUP_PREFIX, SYSTEM_GROUPS
from steelyard.wire.bodies.groups import GroupSettings, GroupTable, RetryKind, RetryPolicy
from steelyard.wire.codes import ResponseCode

__all__ = ["Groups"]


class Groups:
    """The table of groups. ``changes`` grows with each change."""

    def __init__(
        self,
        options: BrokerOptions,
        saved: GroupTable | None,
        now_ms: int,
        count: Callable[[int], None] = lambda _now_ms: None,
    ) -> None:
        self._options, self._count = options, count
        self.version = next_version(None if saved is None else saved.version, now_ms)
        self.changes = 0
        self._groups: dict[str, GroupSettings] = {} if saved is None else dict(saved.groups)
        for name in SYSTEM_GROUPS:
            self._groups.setdefault(name, _settings(name))
        self._room = Room("groups")
        for name, settings in self._groups.items():
            self._room.take(name, settings, is_saved=True)

    def get(self, name: str) -> GroupSettings | None:
        """Return a group's settings, or None."""
        return self._groups.get(name)

    def __iter__(self) -> Iterator[GroupSettings]:
        """Go through all groups, by name."""
        return iter([self._groups[name] for name in sorted(self._groups)])

    def __len__(self) -> int:
        """Count the groups."""
        return len(self._groups)

    def planned(self, name: str) -> GroupSettings:
        """Return a group's settings, or those that it would have if it was made now."""
        return self._groups.get(name) or _settings(name)

    def known(self, name: str, now_ms: int) -> GroupSettings:
        """Return a group's settings, made if that is allowed; refuse the request otherwise (26)."""
        return self._groups.get(name) or self._made(name, now_ms)

    def _made(self, name: str, now_ms: int) -> GroupSettings:
        check_group(name)
        if not self._options.auto_create_groups and not name.startswith(SYSTEM_GROUP_PREFIX):
            raise refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name}] does not exist, and this broker makes none by itself: create it",
            )
        return self.put(_settings(name), now_ms)

    def put(self, settings: GroupSettings, now_ms: int) -> GroupSettings:
        """Make a group or change it; the same settings again change nothing."""
        check_group(settings.name)
        known = self._groups.get(settings.name)
        if known == settings:
            return settings
        if known is None and len(self._groups) >= self._options.max_groups:
            raise refusal(
                ResponseCode.SYSTEM_ERROR, f"this broker has {len(self._groups)} groups and takes no more: delete some"
            )
        if known is None:
            self._count(now_ms)
        self._room.take(settings.name, settings)
        self._groups[settings.name] = settings
        self._changed(now_ms)
        return settings

    def follow(self, options: BrokerOptions) -> None:
        """Go by other options from now on."""
        self._options = options

    def remove(self, name: str, now_ms: int) -> bool:
        """Forget a group; say whether it was there."""
        if self._groups.pop(name, None) is None:
            return False
        self._room.give_back(name)
        self._changed(now_ms)
        return True

    def _changed(self, now_ms: int) -> None:
        self.version = next_version(self.version, now_ms)
        self.changes += 1

    def table(self) -> GroupTable:
        """Return the table as it is saved and told to tools."""
        return GroupTable(version=self.version, forbidden={}, groups=dict(sorted(self._groups.items())))


def _settings(name: str) -> GroupSettings:
    return GroupSettings(
        name=name,
        attributes={},
        orderly=False,
        consume_timeout_minutes=15,
        retry_policy=RetryPolicy(kind=RetryKind.CUSTOMIZED),
        sys_flag=0,
    )
