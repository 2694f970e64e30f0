"""Rows of a survey, made of what an administrator's client saw. Pure."""

from collections.abc import Iterable

from steelyard.balance.hazards import Hazard
from steelyard.client.admin.group_view import GroupView
from steelyard.client.admin.statistics import BrokerFlow
from steelyard.client.admin.topic_wishes import may_in_words
from steelyard.client.admin.topics import Topic, TopicView
from steelyard.client.moments import since_1970_ms
from steelyard.dashboard.survey.values import BrokerRow, GroupRow, TopicRow
from steelyard.model.names import RETRY

__all__ = ["broker_row", "group_row", "topic_row"]


def broker_row(flow: BrokerFlow, came: float | None, went: float | None) -> BrokerRow:
    """Make the row of a server; what came and went a second is counted, and else what it tells."""
    return BrokerRow(
        name=flow.broker,
        id=flow.id,
        cluster=flow.cluster,
        address=flow.address,
        version=flow.version,
        up_ms=None if flow.up is None else round(flow.up.total_seconds() * 1_000),
        in_rate=flow.in_tps if came is None else came,
        out_rate=flow.out_tps if went is None else went,
        disk_used=flow.disk_used,
        problem=flow.problem,
    )


def topic_row(listed: Topic, view: TopicView | None, rate: float | None, at_ms: int | None) -> TopicRow:
    """Make the row of a topic that was listed, and perhaps seen; who reads it is not known here."""
    return TopicRow(
        name=listed.name,
        kind=listed.kind.value,
        queues=listed.queues,
        brokers=listed.brokers,
        permission=may_in_words(listed.permission),
        messages=None if view is None else view.messages,
        in_rate=rate,
        stored_ms=None if view is None else _stored_ms(view),
        at_ms=at_ms,
    )


def group_row(view: GroupView, found: Iterable[Hazard], notes: tuple[str, ...], rate: float | None) -> GroupRow:
    """Make the row of a group that was seen from afar."""
    users = [each for each in view.queues if not each.queue.topic.startswith(RETRY)]
    return GroupRow(
        name=view.group,
        members=len(view.members),
        kind=view.kind,
        broadcast=view.broadcast,
        strategy=view.strategy,
        topics=tuple(dict.fromkeys(each.queue.topic for each in users)),
        queues=len(users) or None,
        lag=None if view.broadcast else view.lag,
        out_rate=None if view.broadcast else rate,
        hazards=tuple(each.sentence for each in found),
        notes=notes,
        at_ms=view.at_ms,
    )


def _stored_ms(view: TopicView) -> int | None:
    stored = view.stored_at
    return None if stored is None else since_1970_ms(stored)
