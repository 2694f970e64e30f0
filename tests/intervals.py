"""A tenth of the intervals that production has, for clients, brokers and pages of ours in this process.

Heartbeats, refreshes and rounds come ten times as often, so tests that wait for one wait a tenth. Deadlines stay as
they are: on a busy machine an answer may take its time, and what is late must not be taken for lost.
"""

import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from steelyard.balance.member_options import MemberOptions, Times
from steelyard.client.consuming.consumer_options import ConsumerOptions
from steelyard.client.pulling.puller_options import PullerOptions

__all__ = ["shorten", "tenth_of_the_intervals", "whole_intervals"]

_INTERVALS = (
    "steelyard.broker.members._SCAN_MS",
    "steelyard.broker.requests.clients._OUR_BEAT_MS",
    "steelyard.client.consuming.consuming._LOOK_S",
    "steelyard.client.producing.telling._GAP_S",
    "steelyard.client.pulling.assigned._COMMIT_S",
    "steelyard.client.routes._REFRESH_S",
    "steelyard.client.routes._SOON_S",
    "steelyard.client.session._BEAT_S",
    "steelyard.dashboard.api.brokers._ALL_PERIOD_MS",
    "steelyard.dashboard.api.brokers._ONE_PERIOD_MS",
    "steelyard.dashboard.api.dead_letters._LOOK_MS",
    "steelyard.dashboard.api.offsets._LOOK_MS",
    "steelyard.dashboard.api.plan._LOOK_MS",
    "steelyard.dashboard.api.producers._PERIOD_MS",
    "steelyard.dashboard.api.topics._PERIOD_MS",
    "steelyard.dashboard.group.looking._ASKED_MS",
    "steelyard.dashboard.group.looking._TOLD_MS",
    "steelyard.dashboard.group.looking._SETTLES_MS",
    "steelyard.dashboard.message.tailing._QUIET_S",
    "steelyard.dashboard.survey.survey._CLOSE_LOOK_MS",
    "steelyard.dashboard.survey.survey._LISTS_MS",
    "steelyard.dashboard.survey.survey._PERIOD_MS",
    "steelyard.dashboard.survey.topic_watch._GROUPS_MS",
)
# Of the times of a member, those between two tries; who gives times of their own has them.
_PAUSES = ("ask_again_ms", "commit_ms", "pull_again_ms", "send_back_again_ms", "suspend_ms")


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
    for kind in (ConsumerOptions, PullerOptions):
        patch.setattr(kind, "member_options", _in_a_hurry(kind.member_options))
    return whole


def _in_a_hurry(of_production: Callable[..., MemberOptions]) -> Callable[..., MemberOptions]:
    def member_options(options: ConsumerOptions | PullerOptions, *given: object) -> MemberOptions:
        made = of_production(options, *given)
        if options.times != Times():
            return made
        pauses = {name: getattr(made.times, name) // 10 for name in _PAUSES}
        return replace(made, times=replace(made.times, **pauses))

    return member_options
