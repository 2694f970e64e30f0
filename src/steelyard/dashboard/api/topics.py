"""Topics: the list of them, from the survey; and one of them by its queues, looked at each second while it is shown."""

from collections.abc import AsyncIterator, Mapping

from msgspec import Struct

from steelyard.dashboard.asking import Ask
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.routes import reads, streams
from steelyard.dashboard.survey.survey import survey_of
from steelyard.dashboard.survey.topic_watch import TopicAnswer, TopicWatch
from steelyard.dashboard.survey.values import Seen, TopicRow
from steelyard.dashboard.watching import Trouble

__all__ = ["ROUTES", "TopicList"]

_PERIOD_MS = 1_000


class TopicList(Struct, frozen=True, kw_only=True):
    """Topics, all of them, or those that changed since the last answer."""

    at_ms: int
    topics_seen_ms: int | None
    """When the topic was seen that was not looked at for longest; None while some were not seen at all."""
    is_whole: bool
    rows: tuple[TopicRow, ...]
    gone: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    command: str


def _list(seen: Seen, command: str, before: Mapping[str, TopicRow] | None = None) -> TopicList:
    rows = seen.topics.values()
    return TopicList(
        at_ms=seen.at_ms,
        topics_seen_ms=seen.topics_seen_ms,
        is_whole=before is None,
        rows=tuple(rows if before is None else (row for row in rows if before.get(row.name) != row)),
        gone=() if before is None else tuple(name for name in before if name not in seen.topics),
        command=command,
    )


@reads("/api/topics")
async def _topics(desk: Desk, ask: Ask) -> TopicList:
    del ask
    return _list(await survey_of(desk).seen(), desk.command("topic", "ls"))


@streams("/api/topics/live")
async def _topics_live(desk: Desk, ask: Ask) -> AsyncIterator[TopicList | Trouble]:
    del ask
    before: Mapping[str, TopicRow] | None = None
    command = desk.command("topic", "ls")
    async for seen in survey_of(desk).watch():
        if isinstance(seen, Trouble):
            yield seen
        else:
            yield _list(seen, command, before)
            before = seen.topics


@reads("/api/topics/{topic}")
async def _topic(desk: Desk, ask: Ask) -> TopicAnswer:
    watch = TopicWatch(desk, ask.path("topic"))
    return await desk.watches.latest(("topic", watch.topic), _PERIOD_MS, watch.look)


@streams("/api/topics/{topic}/live")
async def _topic_live(desk: Desk, ask: Ask) -> AsyncIterator[TopicAnswer | Trouble]:
    watch = TopicWatch(desk, ask.path("topic"))
    async for answer in desk.watches.watch(("topic", watch.topic), _PERIOD_MS, watch.look):
        yield answer


ROUTES = (_topics, _topics_live, _topic, _topic_live)
