"""A tenth of the intervals that production has, for clients, brokers and pages of ours in this process.

Heartbeats, refreshes and rounds come ten times as often, so tests that wait for one wait a tenth. Deadlines are never
shorter: on a busy machine an answer may take its time, and what is late must not be taken for lost. A client has
a minute to connect, and an `Admin` a minute for each request; tests of servers that are not there say how long they
wait.
"""

import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from steelyard.balance.group.options import MemberOptions, MemberTimings
from steelyard.client.config import ClientConfig
from steelyard.client.consumer.options import ConsumerOptions
from steelyard.client.pull_consumer.options import PullConsumerOptions

__all__ = ["shorten", "tenth_of_the_intervals", "whole_intervals"]

_INTERVALS = (
    "steelyard.broker.consumer_registry._SCAN_MS",
    "steelyard.broker.requests.heartbeat._DEFAULT_HEARTBEAT_MS",
    "steelyard.client.consumer.run._PERIOD_S",
    "steelyard.client.producer.latency_report._MIN_INTERVAL_S",
    "steelyard.client.pull_consumer.assigned._COMMIT_S",
    "steelyard.client.topic_routes._REFRESH_S",
    "steelyard.client.topic_routes._FORCED_REFRESH_GAP_S",
    "steelyard.client.session._HEARTBEAT_S",
    "steelyard.dashboard.api.brokers._ALL_PERIOD_MS",
    "steelyard.dashboard.api.brokers._ONE_PERIOD_MS",
    "steelyard.dashboard.api.dead_letters._POLL_MS",
    "steelyard.dashboard.api.offsets._POLL_MS",
    "steelyard.dashboard.api.plan._POLL_MS",
    "steelyard.dashboard.api.producers._PERIOD_MS",
    "steelyard.dashboard.api.topics._PERIOD_MS",
    "steelyard.dashboard.api.groups._MEMBER_POLL_MS",
    "steelyard.dashboard.api.groups._LOCK_POLL_MS",
    "steelyard.dashboard.api.groups._SETTLE_MS",
    "steelyard.dashboard.api.tail._MAX_SILENCE_S",
    "steelyard.dashboard.cluster_poller._MEMBER_VIEW_POLL_MS",
    "steelyard.dashboard.cluster_poller._LIST_POLL_MS",
    "steelyard.dashboard.cluster_poller._PERIOD_MS",
    "steelyard.dashboard.api.topics._GROUPS_MS",
)
_TIMEOUT_S = 60
_ADMIN_TIMEOUT = "steelyard.client.admin.admin_session._REQUEST_TIMEOUT_MS"
# Of the times of a member, those between two tries; who gives times of their own has them.
_PAUSES = ("query_retry_ms", "commit_ms", "pull_retry_ms", "send_back_retry_ms", "suspend_ms")


@pytest.fixture(scope="session", autouse=True)
def tenth_of_the_intervals() -> Iterator[dict[str, float]]:
    """Shorten the intervals for the whole run, and yield what they were."""
    with pytest.MonkeyPatch.context() as patch:
        yield shorten(patch)


@pytest.fixture(scope="module")
def whole_intervals(tenth_of_the_intervals: dict[str, float]) -> Iterator[None]:
    """Give production's intervals to a module whose tests turn the clock themselves and wait for nothing."""
    with pytest.MonkeyPatch.context() as patch:
        for name, whole in tenth_of_the_intervals.items():
            patch.setattr(name, whole)
        yield


def shorten(patch: pytest.MonkeyPatch) -> dict[str, float]:
    """Give this process a tenth of each interval, and return what they were; Apache's servers get production's."""
    whole: dict[str, float] = {}
    if os.environ.get("STEELYARD_LIVE", "embedded") != "embedded":
        return whole
    for name in _INTERVALS:
        module, _, constant = name.rpartition(".")
        whole[name] = getattr(importlib.import_module(module), constant)
        patch.setattr(name, whole[name] // 10 if isinstance(whole[name], int) else whole[name] / 10)
    assert ClientConfig.__init__.__kwdefaults__ is not None
    patch.setitem(ClientConfig.__init__.__kwdefaults__, "timeout_s", _TIMEOUT_S)
    patch.setattr(_ADMIN_TIMEOUT, _TIMEOUT_S * 1000)
    for kind in (ConsumerOptions, PullConsumerOptions):
        patch.setattr(kind, "member_options", _in_a_hurry(kind.member_options))
    return whole


def _in_a_hurry(of_production: Callable[..., MemberOptions]) -> Callable[..., MemberOptions]:
    def member_options(options: ConsumerOptions | PullConsumerOptions, *given: object) -> MemberOptions:
        made = of_production(options, *given)
        if options.times != MemberTimings():
            return made
        pauses = {name: getattr(made.times, name) // 10 for name in _PAUSES}
        return replace(made, times=replace(made.times, **pauses))

    return member_options
