"""The page about metrics: every family, as it is declared where it is told."""

from collections.abc import Iterable

from steelyard import metrics
from steelyard.dashboard.options import DASHBOARD_PORT
from steelyard.metrics.families import NODE_LABELS, MetricSpec
from steelyard.metrics.rocketmq_metrics import ROCKETMQ_METRICS
from steelyard.metrics.steelyard_metrics import BROKER_ANSWER, BROKER_REACHED, QUESTIONS_UNANSWERED, STEELYARD_METRICS
from tests.docs.generated.sources import cell

_ABOUT = f"""# Metrics

The dashboard of a cluster serves `/metrics` in Prometheus' text format, or in OpenMetrics on request:

```sh
curl http://127.0.0.1:{DASHBOARD_PORT}/metrics
```

Programs of the same machine need nothing else. On a page that listens on other addresses `/metrics` takes the page's
token, as `Authorization: Bearer TOKEN`. A Prometheus that scrapes it, rules that raise alarms and a Grafana board are
in the folder `deploy/` of the source.

- `steelyard up` tells everything below of the servers that it runs. Reading thousands of groups takes a moment; the
  servers go on meanwhile.
- `steelyard dashboard --namesrv …` stands beside a cluster that runs elsewhere, ours or Apache's, and tells what an
  administrator may ask for: `steelyard_broker_reached`, lag, members, what came in and went out, under the same names.
  A label that is not reported is empty there, and a number that is not reported is missing. An answer is good for ten
  seconds.

What is counted begins at nothing with its process. Every family has the labels `cluster`, `node_type` and `node_id`,
which say whose number it is; they are not repeated below. Times of ours are in seconds, those of RocketMQ in
milliseconds.

There is an end to what is told of names that clients choose: of a broker 20,000 topics, as many pairs of group and
topic, and the members of 5,000 groups. `steelyard_samples_left_out` says how many there are beyond it. Languages and
versions of clients beyond 50 of a group are counted as `other`; rebalances of groups beyond 2,000 as `(others)`.
"""

_ROCKETMQ = """## RocketMQ's own

Names and labels are those of RocketMQ 5's brokers, so that boards made for them work. What differs:

- A group is told of as long as it has offsets, with and without members; Apache's brokers tell of those with members
  alone. A group's retries are told beside its topics, with `is_retry="true"`.
- Lag counts messages as they are stored, also those that the group's filter does not match.
- A delayed message, and one of a transaction, counts again when it gets to its topic.
- `rocketmq_message_size`, `rocketmq_rpc_latency_milliseconds` and `rocketmq_finish_message_latency_milliseconds` are
  not told, and neither are those of POP, of thread pools and of the timer wheel, which these brokers do not have.
"""

_OWN = """## Steelyard's

How balance is kept, and how the servers are.
"""

_OUTSIDE = """## Seen from outside

Told only by a page that stands beside a cluster.
"""

_CLIENT = """## Clients

A program can count [what its own clients do](../how-to/client-metrics.md) with the observer
`steelyard.metrics.ClientMetrics`. Names are those of RocketMQ 5's clients where they have such a thing. These have no
labels of servers. What clients that ended have counted goes on under an empty `client_id`; samples beyond 5,000 of a
family are counted together, as `other`.
"""


def metrics_page() -> str:
    """Write the page about metrics."""
    outside = (BROKER_REACHED, BROKER_ANSWER, QUESTIONS_UNANSWERED)
    parts = [
        _ABOUT,
        _ROCKETMQ,
        _table(ROCKETMQ_METRICS),
        _OWN,
        _table(each for each in STEELYARD_METRICS if each not in outside),
    ]
    parts += [_OUTSIDE, _table(outside), _CLIENT, _table(metrics.CLIENT_METRICS)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _labels(metric: MetricSpec) -> str:
    return ", ".join(f"`{label}`" for label in metric.labels if label not in NODE_LABELS)


def _table(measures: Iterable[MetricSpec]) -> str:
    rows = [f"| `{each.name}` | {each.kind} | {_labels(each)} | {cell(each.help)} |" for each in measures]
    return "\n".join(["| name | kind | labels | what it is |", "|---|---|---|---|", *rows])
