"""A tenth of the intervals that production has, for clients, brokers and pages of ours in this process.

Heartbeats, refreshes and rounds come ten times as often, so tests that wait for one wait a tenth. Deadlines are never
shorter: on a busy machine an answer may take its time, and what is late must not be taken for lost. A client, a command
and a send have a minute, as has each request that waits for an answer; tests of servers that are not there or do not
answer say how long they wait.
"""

import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import fields, replace

import pytest

from steelyard.balance.group.options import MemberOptions, MemberTimings
from steelyard.client.admin.admin_session import AdminSession
from steelyard.client.config import ClientConfig
from steelyard.client.consumer.options import ConsumerOptions
from steelyard.client.producer.options import ProducerOptions
from steelyard.client.pull_consumer.options import PullConsumerOptions
from steelyard.client.session import Session

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
_TIMEOUTS = (
    "steelyard.broker.requests.consumers._STATUS_TIMEOUT_MS",
    "steelyard.cli.check_run._NAME_SERVER_TIMEOUT_S",
    "steelyard.cli.shared.options._TIMEOUT_S",
    "steelyard.client.admin.admin_session._REQUEST_TIMEOUT_MS",
    "steelyard.client.admin.group_description._MEMBER_TIMEOUT_MS",
    "steelyard.client.topic_routes._LAST_TRY_TIMEOUT_MS",
    "steelyard.diagnostics.thresholds.SLOW_ANSWER_MS",
)
_DEFAULTS: tuple[tuple[Callable[..., object], str], ...] = (
    (ClientConfig.__init__, "timeout_s"),
    (AdminSession.request, "timeout_ms"),
    (Session.request, "timeout_ms"),
    (Session.request_ok, "timeout_ms"),
)
whole_defaults: dict[str, float] = {}
"""Production's default deadlines, which no test in this process sees."""
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
    for name in _TIMEOUTS:
        module, _, constant = name.rpartition(".")
        whole[name] = getattr(importlib.import_module(module), constant)
        patch.setattr(name, _minute(name))
    for function, parameter in _DEFAULTS:
        defaults = function.__kwdefaults__
        assert defaults is not None
        whole_defaults[f"{function.__qualname__}({parameter})"] = defaults[parameter]
        patch.setitem(defaults, parameter, _minute(parameter))
    whole_defaults["ProducerOptions.timeout_s"] = ProducerOptions().timeout_s
    patch.setattr(ProducerOptions.__init__, "__defaults__", _patient_sends())
    for kind in (ConsumerOptions, PullConsumerOptions):
        patch.setattr(kind, "member_options", _in_a_hurry(kind.member_options))
    return whole


def _minute(name: str) -> int:
    return _TIMEOUT_S * (1000 if name.lower().endswith("_ms") else 1)


def _patient_sends() -> tuple[object, ...]:
    return tuple(_TIMEOUT_S if each.name == "timeout_s" else each.default for each in fields(ProducerOptions))


def _in_a_hurry(of_production: Callable[..., MemberOptions]) -> Callable[..., MemberOptions]:
    def member_options(options: ConsumerOptions | PullConsumerOptions, *given: object) -> MemberOptions:
        made = of_production(options, *given)
        if options.times != MemberTimings():
            return made
        pauses = {name: getattr(made.times, name) // 10 for name in _PAUSES}
        return replace(made, times=replace(made.times, **pauses))

    return member_options
