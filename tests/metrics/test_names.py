"""Names of our own families: base units, and labels whose number of values has an end."""

import re

from steelyard.metrics import CLIENT_METRICS
from steelyard.metrics.families import NODE_LABELS
from steelyard.metrics.steelyard_metrics import STEELYARD_METRICS
from tests.tidy.tree import complain

_OURS = [each for each in (*STEELYARD_METRICS, *CLIENT_METRICS) if each.name.startswith("steelyard_")]
_NO_BASE_UNIT = re.compile(r"_(?:milliseconds|ms|microseconds|nanoseconds|minutes|hours|kb|mb|kib|mib|percent)(?:_|$)")
_BOUNDED_BY = {
    **dict.fromkeys(NODE_LABELS, "the servers of the cluster"),
    "consumer_group": "a limit of broker/metrics.py, rebalance_history.py and stats.py; of clients: _MAX_SAMPLES",
    "topic": "_MAX_SAMPLES",
    "client_id": "the clients that are open",
    "broker": "the brokers of the cluster",
    "error": "the classes of errors",
    **dict.fromkeys(("version", "python"), "one of each server"),
    **dict.fromkeys(("kind", "state", "warning", "result", "how", "became"), "words of ours"),
}
"""Each label, and what ends the number of its values."""


def test_units_are_base_units() -> None:
    complain(f"{each.name}: let it be in seconds or bytes" for each in _OURS if _NO_BASE_UNIT.search(each.name))


def test_every_label_has_an_end() -> None:
    complain(
        f"{each.name} has the label {label!r}: say in {__name__} what ends the number of its values"
        for each in _OURS
        for label in each.labels
        if label not in _BOUNDED_BY
    )
