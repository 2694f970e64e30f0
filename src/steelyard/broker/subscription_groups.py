"""Subscription groups: the settings of consumer groups. Their present members are in consumer_registry.py."""

from collections.abc import Callable

from steelyard.broker.options import BrokerOptions
from steelyard.broker.request_errors import request_error, system_error
from steelyard.broker.table_limits import SavedTable
from steelyard.broker.validation import check_group
from steelyard.model.reserved_names import SYSTEM_GROUP_PREFIX, SYSTEM_GROUPS
from steelyard.wire.bodies.groups import (
    GroupRetryPolicy,
    GroupRetryPolicyType,
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
)
from steelyard.wire.codes import ResponseCode


class SubscriptionGroups(SavedTable[SubscriptionGroupConfig]):
    """The table of groups."""

    def __init__(
        self,
        options: BrokerOptions,
        saved: SubscriptionGroupTable | None,
        now_ms: int,
        count_creation: Callable[[int], None] = lambda _now_ms: None,
    ) -> None:
        self._options, self._count_creation = options, count_creation
        super().__init__("groups", None if saved is None else saved.version, now_ms)
        self._entries.update({} if saved is None else saved.groups)
        for name in SYSTEM_GROUPS:
            self._entries.setdefault(name, _default_settings(name))
        for name, settings in self._entries.items():
            self._size_limit.add(name, settings, is_saved=True)

    def settings_or_default(self, name: str) -> SubscriptionGroupConfig:
        """Return a group's settings, or the defaults."""
        return self._entries.get(name) or _default_settings(name)

    def get_or_create(self, name: str, now_ms: int) -> SubscriptionGroupConfig:
        """Return a group's settings, created if that is allowed; refuse the request otherwise (26)."""
        if (settings := self._entries.get(name)) is not None:
            return settings
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
        known = self._entries.get(settings.name)
        if known == settings:
            return settings
        if known is None and len(self._entries) >= self._options.max_groups:
            raise system_error(f"this broker has {len(self._entries)} groups and accepts no more: delete some")
        if known is None:
            self._count_creation(now_ms)
        self._size_limit.add(settings.name, settings)
        self._entries[settings.name] = settings
        self._record_change(now_ms)
        return settings

    def apply_options(self, options: BrokerOptions) -> None:
        """Apply changed options."""
        self._options = options

    def table(self) -> SubscriptionGroupTable:
        """Return the table as it is saved and sent to tools."""
        return SubscriptionGroupTable(version=self.version, forbidden={}, groups=dict(sorted(self._entries.items())))


def _default_settings(name: str) -> SubscriptionGroupConfig:
    return SubscriptionGroupConfig(
        name=name,
        attributes={},
        orderly=False,
        consume_timeout_minutes=15,
        retry_policy=GroupRetryPolicy(kind=GroupRetryPolicyType.CUSTOMIZED),
        sys_flag=0,
    )
