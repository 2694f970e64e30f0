"""Subscription groups: the settings of consumer groups. Their present members are in consumer_registry.py."""

from collections.abc import Callable, Iterator

from steelyard.broker.options import BrokerOptions
from steelyard.broker.request_errors import request_error, system_error
from steelyard.broker.table_limits import TableSizeLimit, next_data_version
from steelyard.broker.validation import check_group
from steelyard.model.reserved_names import SYSTEM_GROUP_PREFIX, SYSTEM_GROUPS
from steelyard.wire.bodies.groups import (
    GroupRetryPolicy,
    GroupRetryPolicyType,
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
)
from steelyard.wire.codes import ResponseCode

__all__ = ["SubscriptionGroups"]


class SubscriptionGroups:
    """The table of groups. ``changes`` grows with each change."""

    def __init__(
        self,
        options: BrokerOptions,
        saved: SubscriptionGroupTable | None,
        now_ms: int,
        count_creation: Callable[[int], None] = lambda _now_ms: None,
    ) -> None:
        self._options, self._count_creation = options, count_creation
        self.version = next_data_version(None if saved is None else saved.version, now_ms)
        self.changes = 0
        self._groups: dict[str, SubscriptionGroupConfig] = {} if saved is None else dict(saved.groups)
        self.get = self._groups.get
        """Returns a group's settings, or None; the dictionary's own function, because each pull calls it."""
        for name in SYSTEM_GROUPS:
            self._groups.setdefault(name, _default_settings(name))
        self._size_limit = TableSizeLimit("groups")
        for name, settings in self._groups.items():
            self._size_limit.add(name, settings, is_saved=True)

    def __iter__(self) -> Iterator[SubscriptionGroupConfig]:
        """Iterate over all groups, by name."""
        return iter([self._groups[name] for name in sorted(self._groups)])

    def __len__(self) -> int:
        """Count the groups."""
        return len(self._groups)

    def settings_or_default(self, name: str) -> SubscriptionGroupConfig:
        """Return a group's settings, or the defaults."""
        return self._groups.get(name) or _default_settings(name)

    def get_or_create(self, name: str, now_ms: int) -> SubscriptionGroupConfig:
        """Return a group's settings, created if that is allowed; refuse the request otherwise (26)."""
        return self._groups.get(name) or self._create(name, now_ms)

    def _create(self, name: str, now_ms: int) -> SubscriptionGroupConfig:
        check_group(name)
        if not self._options.auto_create_groups and not name.startswith(SYSTEM_GROUP_PREFIX):
            raise request_error(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name}] does not exist, and this broker creates none automatically: create it",
            )
        return self.put(_default_settings(name), now_ms)

    def put(self, settings: SubscriptionGroupConfig, now_ms: int) -> SubscriptionGroupConfig:
        """Create or change a group; equal settings change nothing."""
        check_group(settings.name)
        known = self._groups.get(settings.name)
        if known == settings:
            return settings
        if known is None and len(self._groups) >= self._options.max_groups:
            raise system_error(f"this broker has {len(self._groups)} groups and accepts no more: delete some")
        if known is None:
            self._count_creation(now_ms)
        self._size_limit.add(settings.name, settings)
        self._groups[settings.name] = settings
        self._record_change(now_ms)
        return settings

    def apply_options(self, options: BrokerOptions) -> None:
        """Apply changed options."""
        self._options = options

    def remove(self, name: str, now_ms: int) -> bool:
        """Remove a group; return whether it existed."""
        if self._groups.pop(name, None) is None:
            return False
        self._size_limit.remove(name)
        self._record_change(now_ms)
        return True

    def _record_change(self, now_ms: int) -> None:
        self.version = next_data_version(self.version, now_ms)
        self.changes += 1

    def table(self) -> SubscriptionGroupTable:
        """Return the table as it is saved and sent to tools."""
        return SubscriptionGroupTable(version=self.version, forbidden={}, groups=dict(sorted(self._groups.items())))


def _default_settings(name: str) -> SubscriptionGroupConfig:
    return SubscriptionGroupConfig(
        name=name,
        attributes={},
        orderly=False,
        consume_timeout_minutes=15,
        retry_policy=GroupRetryPolicy(kind=GroupRetryPolicyType.CUSTOMIZED),
        sys_flag=0,
    )
