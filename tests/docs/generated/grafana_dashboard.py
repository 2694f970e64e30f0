"""The Grafana board of `deploy/`: what it shows, one line a panel, and how that is written for Grafana.

Panels ask for families by their declarations, so that none can ask for what nobody tells. Numbers of several brokers
are summed up; members have a line to each broker, so of those the most at any one broker counts.
"""

import json
from typing import Any, NamedTuple

from steelyard.metrics import rocketmq_metrics as rocketmq
from steelyard.metrics import steelyard_metrics as own
from steelyard.metrics.families import MetricSpec

_WIDE, _HIGH = 8, 8
_COLUMNS = 24
_SOURCE = {"type": "prometheus", "uid": "${source}"}
_SERVERS = 'cluster=~"$cluster",node_id=~"$node"'
_GROUPS = f'{_SERVERS},consumer_group=~"$group"'


class _Panel(NamedTuple):
    """One picture: its title, what it says, the unit of its numbers, and what it asks for, each with a legend."""

    title: str
    says: str
    unit: str
    asks: tuple[tuple[str, str], ...]
    kind: str = "timeseries"


def _rate(measure: MetricSpec, by: str, of: str = _GROUPS) -> str:
    return f"sum by ({by}) (rate({measure.name}{{{of}}}[$__rate_interval]))"


def _grown(measure: MetricSpec, by: str, of: str = _GROUPS) -> str:
    return f"sum by ({by}) (increase({measure.name}{{{of}}}[$__rate_interval]))"


def _share(measure: MetricSpec, share: float, by: str, of: str = _GROUPS) -> str:
    inner = f"sum by ({by}, le) (rate({measure.name}_bucket{{{of}}}[$__rate_interval]))"
    return f"histogram_quantile({share}, {inner})"


def _sum(measure: MetricSpec, by: str, of: str = _GROUPS) -> str:
    return f"sum by ({by}) ({measure.name}{{{of}}})"


_GROUP, _NODE = "{{consumer_group}}", "{{node_id}}"

_ROWS: dict[str, tuple[_Panel, ...]] = {
    "Balance": (
        _Panel(
            "Queues that nobody holds",
            "Free queues of groups with members of ours: more than a moment of this is trouble.",
            "short",
            ((_sum(own.GROUP_QUEUES, "consumer_group", f'{_GROUPS},state="free"'), _GROUP),),
        ),
        _Panel(
            "Moves",
            "Queues that changed their owner, by the way in which the last one let go.",
            "short",
            ((_grown(own.MOVES, "consumer_group, kind"), f"{_GROUP}: {{{{kind}}}}"),),
        ),
        _Panel(
            "Hand-over gap",
            "How long a queue that moves has no owner.",
            "s",
            (
                (_share(own.HANDOVER_GAP, 0.5, "consumer_group"), f"{_GROUP}, half of them"),
                (_share(own.HANDOVER_GAP, 0.95, "consumer_group"), f"{_GROUP}, 95 of 100"),
            ),
        ),
        _Panel(
            "Rebalances",
            "How often a group came to rest.",
            "short",
            ((_grown(own.REBALANCES, "consumer_group"), _GROUP),),
        ),
        _Panel(
            "Duration of rebalances",
            "From the first change until no queue is free or moving.",
            "s",
            ((_share(own.REBALANCE_DURATION, 0.95, "consumer_group"), f"{_GROUP}, 95 of 100"),),
        ),
        _Panel(
            "Members",
            "Lines of a group's members at the broker that has the most of them.",
            "short",
            ((f"max by (consumer_group) ({_sum(rocketmq.CONSUMER_CONNECTIONS, 'consumer_group, node_id')})", _GROUP),),
        ),
        _Panel(
            "What looks wrong",
            "An id used twice, unequal subscriptions, members that share and that broadcast.",
            "short",
            (
                (
                    f"max by (consumer_group, warning) ({own.GROUP_WARNINGS.name}{{{_GROUPS}}})",
                    f"{_GROUP}: {{{{warning}}}}",
                ),
            ),
        ),
        _Panel(
            "Duplicates avoided",
            "Messages that were finished and committed before their queue was handed over.",
            "short",
            ((_grown(own.DUPLICATES_AVOIDED, "consumer_group"), _GROUP),),
        ),
        _Panel(
            "Commits refused",
            "Late commits of members that had lost the queue.",
            "short",
            ((_grown(own.FENCED_COMMITS, "consumer_group"), _GROUP),),
        ),
    ),
    "Messages": (
        _Panel(
            "In, by topic",
            "Messages stored a second.",
            "cps",
            ((_rate(rocketmq.MESSAGES_IN, "topic", f'{_SERVERS},topic=~"$topic",is_system!="true"'), "{{topic}}"),),
        ),
        _Panel(
            "Out, by group",
            "Messages delivered a second.",
            "cps",
            ((_rate(rocketmq.MESSAGES_OUT, "consumer_group"), _GROUP),),
        ),
        _Panel(
            "Lag",
            "Messages that are stored, and that a group has not committed.",
            "short",
            ((_sum(rocketmq.CONSUMER_LAG, "consumer_group, topic"), f"{_GROUP}: {{{{topic}}}}"),),
        ),
        _Panel(
            "Age of the oldest",
            "How long ago the oldest message was stored that a group has not committed.",
            "ms",
            (
                (
                    f"max by (consumer_group, topic) ({rocketmq.CONSUMER_LAG_LATENCY.name}{{{_GROUPS}}})",
                    f"{_GROUP}: {{{{topic}}}}",
                ),
            ),
        ),
        _Panel(
            "Dead letters",
            "Messages that groups gave up.",
            "short",
            ((_grown(rocketmq.DEAD_LETTERS, "consumer_group, topic"), f"{_GROUP}: {{{{topic}}}}"),),
        ),
        _Panel(
            "Waiting",
            "Messages that are delayed, and transactions that are open.",
            "short",
            (
                (_sum(own.DELAYED_MESSAGES, "kind", _SERVERS), "delayed by {{kind}}"),
                (f"sum ({rocketmq.HALF_MESSAGES.name}{{{_SERVERS}}})", "open transactions"),
            ),
        ),
    ),
    "Servers": (
        _Panel(
            "Lag of the event loop",
            "Everything on a server waits so long.",
            "s",
            ((_share(own.EVENT_LOOP_LAG, 0.99, "node_id", _SERVERS), f"{_NODE}, 99 of 100"),),
        ),
        _Panel(
            "Time of a sync",
            "How long the disk takes to make the log safe.",
            "s",
            ((_share(own.FSYNC_DURATION, 0.99, "node_id", _SERVERS), f"{_NODE}, 99 of 100"),),
        ),
        _Panel("Lines", "Open lines.", "short", ((_sum(own.CONNECTIONS, "node_id", _SERVERS), _NODE),)),
        _Panel(
            "Traffic",
            "Bytes a second.",
            "Bps",
            (
                (_rate(own.RECEIVED_BYTES, "node_id", _SERVERS), f"{_NODE} in"),
                (_rate(own.SENT_BYTES, "node_id", _SERVERS), f"{_NODE} out"),
            ),
        ),
        _Panel("Room on the disk", "Free bytes.", "bytes", ((_sum(own.STORAGE_FREE, "node_id", _SERVERS), _NODE),)),
        _Panel(
            "Not safe yet",
            "Bytes of the log that a loss of power would take.",
            "bytes",
            ((_sum(rocketmq.FLUSH_BEHIND, "node_id", _SERVERS), _NODE),),
        ),
        _Panel(
            "Corrupt messages",
            "Found to be damaged or lost since the start.",
            "short",
            ((_sum(own.CORRUPT_RECORDS, "node_id", _SERVERS), _NODE),),
            "stat",
        ),
        _Panel(
            "Takes messages",
            "1 as long as the disk has not failed.",
            "short",
            ((_sum(own.STORAGE_WRITABLE, "node_id", _SERVERS), _NODE),),
            "stat",
        ),
        _Panel(
            "Reached",
            "Brokers that answer, where the page stands beside a cluster.",
            "short",
            ((_sum(own.BROKER_REACHED, "node_id", _SERVERS), _NODE),),
            "stat",
        ),
    ),
}


def dashboard() -> str:
    """Write the board."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in _ROWS.items():
        panels.append(_place({"type": "row", "title": title, "collapsed": False}, panels, 0, top, _COLUMNS, 1))
        for number, panel in enumerate(row):
            left, down = number * _WIDE % _COLUMNS, number * _WIDE // _COLUMNS * _HIGH
            panels.append(_place(_drawn(panel), panels, left, top + 1 + down, _WIDE, _HIGH))
        top += 1 + -(-len(row) * _WIDE // _COLUMNS) * _HIGH
    whole = {
        "uid": "steelyard",
        "title": "Steelyard",
        "description": "Balance, messages and servers of Steelyard and of Apache RocketMQ.",
        "tags": ["steelyard", "rocketmq"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source(), *_variables()]},
        "panels": panels,
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _place(
    what: dict[str, Any], before: list[dict[str, Any]], left: int, top: int, wide: int, high: int
) -> dict[str, Any]:
    return {"id": len(before) + 1, **what, "gridPos": {"x": left, "y": top, "w": wide, "h": high}}


def _drawn(panel: _Panel) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
        for number, (expression, legend) in enumerate(panel.asks)
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def _source() -> dict[str, Any]:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _variables() -> list[dict[str, Any]]:
    asked = (
        ("cluster", "Cluster", f"label_values({rocketmq.TOPIC_COUNT.name}, cluster)"),
        ("node", "Server", f'label_values({rocketmq.TOPIC_COUNT.name}{{cluster=~"$cluster"}}, node_id)'),
        ("group", "Group", f'label_values({rocketmq.CONSUMER_LAG.name}{{cluster=~"$cluster"}}, consumer_group)'),
        ("topic", "Topic", f'label_values({rocketmq.MESSAGES_IN.name}{{cluster=~"$cluster"}}, topic)'),
    )
    return [
        {
            "name": name,
            "label": label,
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": query, "refId": name},
            "definition": query,
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        }
        for name, label, query in asked
    ]
