"""Options of a pull consumer: one frozen value, checked once; every option is a keyword of `PullConsumer`."""

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.balance.group.options import MemberOptions
from steelyard.client.consumer.options import MemberSettings, SharedOptions
from steelyard.client.namespace import ClientNamespace
from steelyard.model import Subscription

MAX_POLL = 500
"""How many messages a poll returns at most by default."""

_UNLIMITED = 1 << 30
"""No limit of its own: what waits to be polled is limited per queue."""
_UNLIMITED_SPAN = 1 << 62
"""No limit: messages are polled in order, so the distance of the first from the last says nothing."""


class PullConsumerSettings(MemberSettings, total=False):
    """The same as keywords; `PullConsumerOptions` describes each."""

    auto_commit: bool


@dataclass(frozen=True, slots=True)
class PullConsumerOptions(SharedOptions):
    """The options of a pull consumer.

    >>> PullConsumerOptions("report").start.at.value, PullConsumerOptions("report", start_from="first").start.at.value
    ('last', 'first')
    >>> PullConsumerOptions("")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: the group is ''; give a name of letters, digits, - and _, such as billing
    """

    auto_commit: bool = True
    """Whether a poll is done when the next one begins."""

    def member_options(
        self, namespace: ClientNamespace, member_id: str, subscriptions: Mapping[str, Subscription]
    ) -> MemberOptions:
        """Return the options of the member state machine; topics are full names."""
        return self._member_options(
            namespace,
            member_id,
            subscriptions,
            handler_limit=_UNLIMITED,
            handler_batch=self.pull_batch,
            queue_span=_UNLIMITED_SPAN,
            has_retries=False,
        )
