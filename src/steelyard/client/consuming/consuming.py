"""A consumer while it runs: its session, its member, its crew, its offsets if it keeps them itself. Started and ended.

The end is in this order: nothing more is pulled, handlers finish, what they did is committed, queues are given back,
the group is told (all that is the member's); then the threads end, the file is closed, the lines are hung up. Each step
has a bound, and whatever goes wrong in one, the next is taken.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import cast

from steelyard.balance.actions import Handle, Report
from steelyard.balance.events import Pulled
from steelyard.balance.hazards import Hazard
from steelyard.balance.member_options import MemberOptions, Mode
from steelyard.client.conditions import check_condition
from steelyard.client.consuming.consumer_options import ConsumerOptions
from steelyard.client.consuming.crew import Crew
from steelyard.client.consuming.explained import Explained, explain_member
from steelyard.client.consuming.handlers import Handlers
from steelyard.client.consuming.local_offsets import LocalOffsets, offsets_path
from steelyard.client.consuming.membership import Membership
from steelyard.client.consuming.news import Moved, News, is_of_retries
from steelyard.client.consuming.received import Received, received_in
from steelyard.client.consuming.serving import Serving
from steelyard.client.ids import UniqueKeys
from steelyard.client.observing.observer import Cached
from steelyard.client.observing.observing import Observing
from steelyard.client.session import Session
from steelyard.dialect.replying import reply_request
from steelyard.errors import SteelyardError
from steelyard.model import Queue, StoredMessage
from steelyard.net.clock import now_ms, steady_ms

__all__ = ["Consuming"]

_LOOK_S = 1.0
_SAVE_LOOKS = 5
"""Offsets are written and speeds are noted once in so many looks."""
_COUNT_LOOKS = 60
_LAST_WORDS_S = 2.0
"""Beyond the time for draining and the protocol's own patience: by then it has left, or something is very wrong."""
_CREW_S = 0.5

_log = logging.getLogger("steelyard")


class Consuming:
    """One run of a consumer, on one loop."""

    def __init__(
        self,
        session: Session,
        options: ConsumerOptions,
        handlers: Handlers,
        moved: Callable[[Moved], None],
        hazard: Callable[[Hazard], None],
        observing: Observing | None = None,
    ) -> None:
        self._session, self._options, self._observing = session, options, observing
        names = session.names
        self._member_options = options.member_options(handlers, names, session.client_id, now_ms())
        self._by_topic = {names.full(handler.topic): handler for handler in handlers}
        self._on_move = moved
        self._news = News(options.group, names, self._moved, hazard)
        self._loop = asyncio.get_running_loop()
        self._left: asyncio.Future[None] = self._loop.create_future()
        self._keys = UniqueKeys(session.address)
        self._offsets = self._local_offsets()
        self.assignment: tuple[Queue, ...] = ()
        """The queues that are owned, but for those of retries; replaced whole, so it may be read from any thread."""
        self.refused: dict[Queue, SteelyardError] = {}
        """The queues that are owned and cannot be read, since a broker refuses; replaced whole like the assignment."""
        self._unsaved = ""
        """Why the file of offsets could not be written the last time."""
        self._writing: asyncio.Future[None] | None = None
        """The last writing of the file, which may be under way."""
        self._has_ended = False

    def _local_offsets(self) -> LocalOffsets | None:
        if not self._options.is_broadcast:
            return None
        group, name = self._member_options.group, self._session.connect.name
        return LocalOffsets(offsets_path(group, name, self._options.offsets_dir))

    # -- the beginning ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Reach the cluster and join the group."""
        options = self._member_options
        try:
            await self._session.start()
            for wanted in options.topics.values():
                await check_condition(self._session, options.group, wanted)
        except BaseException:
            self._close_offsets()
            await self._session.close()
            raise
        self.membership = Membership(
            self._session,
            options,
            handle=self._handle,
            report=self._report,
            left=self._note_left,
            offsets=self._offsets,
            message_type=received_in(self._session.names),
            received=None if self._observing is None else self._received,
        )
        member = self.membership.member
        self.crew = Crew(
            self._by_topic,
            workers=options.handlers,
            may_start=member.may_start,
            told=self.membership.feed_all,
            resize=member.set_chunk,
            replier=self,
            name=f"steelyard-{self._options.group}",
            observing=self._observing,
            open_bytes=options.queue_bytes,
        )
        self._handle_with_crew(options)
        Serving(self._session, self.membership, self.crew)
        if self._observing is not None:
            self._observing.opened(self._session)
        self.membership.start()
        self._session.spawn(self._look_around())

    def _handle_with_crew(self, options: MemberOptions) -> None:
        """Give handlers of batches as many messages as they take; what came back is handled one by one otherwise."""
        member = self.membership.member
        for topic, handler in self._by_topic.items():
            if handler.batch > 1:
                member.set_chunk(topic, handler.batch)
        if options.mode is Mode.CONCURRENT:
            member.set_chunk(options.retry_topic, max(handler.batch for handler in self._by_topic.values()))

    # -- the end ------------------------------------------------------------------------------------------------------

    @property
    def is_in_handler(self) -> bool:
        """Whether this is called in a handler of its own."""
        return self.crew.is_here

    async def leave(self, drain_ms: int | None) -> None:
        """Finish what runs, commit, hand over and leave the group; after the bound what is left is dropped."""
        self.membership.leave(drain_ms)
        wait_s: float | None = None
        if drain_ms is not None:
            wait_s = (drain_ms + self._member_options.times.leave_grace_ms) / 1000 + _LAST_WORDS_S
        await asyncio.wait([self._left], timeout=wait_s)

    def leave_sooner(self, drain_ms: int) -> None:
        """Give what runs less time than it was given before."""
        self.membership.leave(drain_ms)

    def give_up(self) -> None:
        """Let everything go at once: lines are dropped without a word, and whoever waits for the end need not."""
        self.membership.end()
        self._session.abandon()
        self._note_left()

    async def end(self) -> None:
        """Let go of threads, file and lines."""
        if self._has_ended:
            return
        self._has_ended = True
        self.membership.end()
        still = await self.crew.close(_CREW_S)
        if still:
            _log.warning(
                "%s of group %s ends while %d of its handlers still run; what they do may be done again elsewhere",
                self._session.client_id,
                self._options.group,
                still,
            )
        try:
            await self._save_at_last()
        finally:
            self._close_offsets()
            self.assignment = ()
            if self._observing is not None:
                await self._observing.closed()
            await self._session.close()

    def _note_left(self) -> None:
        if not self._left.done():
            self._left.set_result(None)

    def _close_offsets(self) -> None:
        if self._offsets is not None:
            self._offsets.close()

    # -- what the member wants ----------------------------------------------------------------------------------------

    def _handle(self, action: Handle) -> None:
        self.crew.take(action)

    def _report(self, report: Report) -> None:
        if not self._news.has_moves:
            self._loop.call_soon(self._tell_moves)
        self._news.report(report, steady_ms())

    def _tell_moves(self) -> None:
        if not self._news.has_moves:
            return
        member, names = self.membership.member, self._session.names
        self.assignment = tuple(names.bare_queue(each) for each in member.assignment() if not is_of_retries(each))
        count = len(member.members)
        plan = f"{member.strategy_name} among {count} member{'' if count == 1 else 's'}"
        self._news.moved(now_ms(), self._session.client_id, self.assignment, plan)

    def _moved(self, moved: Moved) -> None:
        if self._observing is not None:
            self._observing.moved(moved, self.membership.member.avoided)
        self._on_move(moved)

    def _received(self, event: Pulled) -> None:
        if self._observing is not None and self._observing.is_on and event.messages:
            self._observing.received(cast("Sequence[Received]", event.messages))

    async def send_reply(self, message: StoredMessage, body: bytes) -> None:
        """Answer a message that was sent as a request."""
        request = reply_request(
            self._member_options.group, message, body, unique_key=self._keys.next(), now_ms=now_ms()
        )
        await self._session.ask_well(message.queue.broker, request)

    # -- looking ------------------------------------------------------------------------------------------------------

    def explain(self) -> Explained:
        """Say what it does and why."""
        return explain_member(self.membership.member, self._session.names, self._news.hazards(), steady_ms())

    @property
    def failures(self) -> dict[str, int]:
        """How often each handler raised each kind of error."""
        return self.crew.troubles.counts()

    async def _look_around(self) -> None:
        looks = 0
        while True:
            await asyncio.sleep(_LOOK_S)
            looks += 1
            self._look_at_refusals()
            self._news.lasting(self._hazards())
            if self._observing is not None:
                self._observing.cached(self._cached())
            if looks % _SAVE_LOOKS == 0:
                self.crew.tallies.sample(now_ms())
                await self._try_to_save()
            if looks % _COUNT_LOOKS == 0:
                self.crew.troubles.tell()

    def _cached(self) -> dict[str, Cached]:
        """Add up what was fetched and is not finished."""
        names, found = self._session.names, dict[str, Cached]()
        for look in self.membership.member.looks():
            topic = names.bare(look.queue.topic)
            before = found.get(topic, Cached(0, 0))
            messages = look.waiting + look.running
            found[topic] = Cached(before.messages + messages, before.body_bytes + look.body_bytes)
        return found

    def _look_at_refusals(self) -> None:
        owned, names = set(self.membership.member.assignment()), self._session.names
        lasting = self.membership.refusals.lasting()
        self.refused = {names.bare_queue(queue): error for queue, error in lasting.items() if queue in owned}

    def _hazards(self) -> list[Hazard]:
        """Find what looks wrong from here: topics that are nowhere, brokers without a master or that refuse pulls."""
        session, found = self._session, []
        there = {queue.topic for queue in self.membership.member.views.queues()}
        for topic in self._by_topic:
            if topic not in there:
                bare = session.names.bare(topic)
                found.append(
                    Hazard(
                        f"no topic {topic}",
                        f"topic {bare!r} is not known to {session.connect}: group {self._options.group} waits for it; "
                        f"create it, or send to it, or correct its name",
                    )
                )
        found += [
            Hazard(
                f"no master {name}",
                f"broker {name} has no master: what a replica has is read, and messages that fail cannot be given back "
                "until there is one",
            )
            for name in session.known_brokers()
            if session.place(name).master is None
        ]
        found += [Hazard(f"refused {queue}", f"{queue} cannot be read: {why}") for queue, why in self.refused.items()]
        if self._unsaved:
            found.append(Hazard("offsets", self._unsaved))
        return found

    async def _try_to_save(self) -> None:
        try:
            await self._save()
            self._unsaved = ""
        except SteelyardError as error:
            self._unsaved = str(error)

    async def _save(self) -> None:
        offsets = self._offsets
        if offsets is not None and offsets.is_changed:
            content = offsets.content()
            try:
                self._writing = self._loop.run_in_executor(None, offsets.write, content)
            except RuntimeError:
                offsets.write(content)  # the interpreter ends, and its executors did before everything else
            else:
                await asyncio.shield(self._writing)

    async def _save_at_last(self) -> None:
        """Write what is not written, after what is being written."""
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)
        try:
            if self._offsets is not None:
                self._offsets.save()
        except SteelyardError as error:
            _log.warning("what was handled last may be handled again: %s", error)
