"""The page `dead letters`: what groups gave up, one of it whole, and giving it to its group again.

A dead letter is known by the id of its place, since one that was sent again and given up again has its producer's id
twice. What is sent again is shown first; of "all of them" the preview tells where they end, so that what is given up
meanwhile does not count.
"""

from collections.abc import AsyncIterator

from steelyard.client.admin.dead_letters import GivenUp, origin_id_of, topic_of, unreadable_because
from steelyard.client.names import Names
from steelyard.dashboard.api.dead_letter_answers import (
    DeadAnswer,
    DeadListAnswer,
    End,
    GroupRow,
    GroupsAnswer,
    Origin,
    ResendAnswer,
    ResendWish,
    dead_row,
)
from steelyard.dashboard.asking import Ask
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.message.bodies import body_of
from steelyard.dashboard.routes import changes, reads, tries
from steelyard.errors import (
    ConfigurationError,
    MalformedRecord,
    NoMessage,
    NoRoute,
    SteelyardError,
    TopicNotFound,
)
from steelyard.model import Queue, StoredMessage
from steelyard.model.names import DEAD

__all__ = ["ROUTES"]

_LOOK_MS = 3_000
_FIRST = 100
_MOST_LISTED = 500
_MOST_CHOSEN = 200
_MOST_SENT = 5_000
"""Sent in one go by the page; for more there is the command line, which tells how far it is."""
_READ = 200
_PREVIEWED = 20
_PUT_BACK = (
    "brokers of Apache's from 5.1.3 on put it straight back while members of the group that keep order hold locks"
)


@reads("/api/dead-letters")
async def _groups(desk: Desk, _: Ask) -> GroupsAnswer:
    async def look(_: list[GivenUp] | None) -> list[GivenUp]:
        return await desk.admin.given_up()

    found = await desk.watches.latest("dead letters", _LOOK_MS, look)
    rows = tuple(GroupRow(each.group, each.messages, each.last_at) for each in found)
    return GroupsAnswer(rows, sum(row.messages for row in rows), desk.command("dead-letters", "ls"))


@reads("/api/groups/{group}/dead-letters")
async def _of_group(desk: Desk, ask: Ask) -> DeadListAnswer:
    group, most = ask.path("group"), ask.whole("most", _FIRST, least=1, most=_MOST_LISTED)
    rules = await desk.admin.group_rules(group)
    found = await desk.admin.dead_letters(group, most=most, newest=True, opened=False)
    total = (await desk.admin.topic(f"{DEAD}{group}")).messages if found else 0
    retries = {each.retries for each in rules.values()}
    names = Names(desk.connect.namespace)
    return DeadListAnswer(
        group,
        tuple(dead_row(dead, names) for dead in reversed(found)),
        max(total, len(found)),
        retries.pop() if len(retries) == 1 else None,
        desk.command("dead-letters", "ls", group, "--count", most),
    )


@reads("/api/groups/{group}/dead-letters/{id}")
async def _one(desk: Desk, ask: Ask) -> DeadAnswer:
    group, id_ = ask.path("group"), ask.path("id")
    dead = await desk.admin.dead_letter(group, id_)
    origin = await _origin(desk, dead)
    why = unreadable_because(dead)
    notes = ["a dead letter does not say why its last attempt failed: the logs of the group's members do"]
    if why is not None:
        notes = [f"no handler saw it, since its body could not be read: {why}"]
    if origin is None:
        notes.append("the message that was given up is not to be found any more where it was sent to")
    return DeadAnswer(
        dead_row(dead, Names(desk.connect.namespace)),
        body_of(dead.body),
        dict(dead.properties),
        dead.born_host,
        origin,
        desk.command("dead-letters", "show", group, id_),
        tuple(notes),
    )


async def _origin(desk: Desk, dead: StoredMessage) -> Origin | None:
    """Find the message that was given up, in the topic that it was sent to."""
    topic = Names(desk.connect.namespace).bare(topic_of(dead))
    for id_ in dict.fromkeys(filter(None, (origin_id_of(dead), dead.message_id))):
        try:
            found = await desk.admin.message(id_, topic or None)
        except (NoMessage, NoRoute, TopicNotFound, MalformedRecord):
            continue
        if found.topic == topic:
            return Origin(topic, found.queue.broker, found.queue.queue_id, found.offset)
    return None


@tries("/api/groups/{group}/dead-letters/preview")
async def _preview(desk: Desk, ask: Ask) -> ResendAnswer:
    chosen = await _chosen(desk, ask)
    return await _answer(desk, chosen, chosen.messages)


@changes("/api/groups/{group}/dead-letters/resend")
async def _resend(desk: Desk, ask: Ask) -> ResendAnswer:
    chosen, sent = await _chosen(desk, ask), 0
    try:
        async for dead in chosen.each(desk):
            await desk.admin.resend(dead)
            sent += 1
    except SteelyardError as error:
        if not sent:
            raise
        raise SteelyardError(
            f"{sent} of {chosen.messages} dead letters were sent again, and then it failed: {error.what}",
            next_step="choose the others, and send them once that is mended",
        ) from error
    return await _answer(desk, chosen, sent)


async def _answer(desk: Desk, chosen: "_Chosen", messages: int) -> ResendAnswer:
    names, rows = Names(desk.connect.namespace), []
    async for dead in chosen.each(desk):
        rows.append(dead_row(dead, names))
        if len(rows) == _PREVIEWED:
            break
    # Only brokers of ours keep the history of moves: so these are Apache's.
    notes = () if await desk.admin.keeps_moves() else (_PUT_BACK,)
    return ResendAnswer(messages, tuple(rows), chosen.ends, notes)


class _Chosen:
    """The dead letters that were chosen: some that are at hand, or all up to where they ended."""

    def __init__(self, group: str, named: list[StoredMessage], ends: tuple[End, ...], messages: int) -> None:
        self.group, self.named, self.ends, self.messages = group, named, ends, messages

    async def each(self, desk: Desk) -> AsyncIterator[StoredMessage]:
        """Go through them; all of them are read again part by part, since there may be many."""
        for dead in self.named:
            yield dead
        for each in self.ends:
            queue, at = Queue(f"{DEAD}{self.group}", each.broker, each.queue_id), each.start
            while at < each.end:
                part = await desk.admin.dead_letters(
                    self.group, start=at, queue=queue, most=min(_READ, each.end - at), opened=False
                )
                if not part:
                    break
                for dead in part:
                    if dead.offset < each.end:
                        yield dead
                at = part[-1].offset + 1


async def _chosen(desk: Desk, ask: Ask) -> _Chosen:
    """Find what was asked for, and say which command line sends the same."""
    group, wish = ask.path("group"), await ask.body(ResendWish)
    ids = list(dict.fromkeys(wish.ids))
    if bool(ids) == wish.all:
        raise ConfigurationError("it is not said which dead letters to send again", next_step="choose some, or all")
    if len(ids) > _MOST_CHOSEN:
        raise ConfigurationError(
            f"{len(ids)} dead letters are chosen", next_step=f"choose {_MOST_CHOSEN} at most, or all"
        )
    words = [word for id_ in ids for word in ("--id", id_)] or ["--all"]
    ask.means(desk.command("dead-letters", "resend", group, *words, "--yes"))
    if ids:
        named = [await desk.admin.dead_letter(group, id_, opened=False) for id_ in ids]
        return _Chosen(group, named, (), len(named))
    ends = await _ends(desk, group) if wish.ends is None else tuple(wish.ends)
    messages = sum(max(0, each.end - each.start) for each in ends)
    if messages > _MOST_SENT:
        raise ConfigurationError(
            f"group {group} has {messages} dead letters, and the page sends {_MOST_SENT} at a time",
            next_step=f"use the command line: {ask.command}",
        )
    return _Chosen(group, [], ends, messages)


async def _ends(desk: Desk, group: str) -> tuple[End, ...]:
    if not await desk.admin.dead_letter_queues(group):
        await desk.admin.group_rules(group)
        return ()
    view = await desk.admin.topic(f"{DEAD}{group}")
    return tuple(
        End(each.queue.broker, each.queue.queue_id, each.start, each.end) for each in view.queues if each.messages
    )


ROUTES = (_groups, _preview, _resend, _of_group, _one)
