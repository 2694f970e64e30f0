"""The whole cluster, looked at in the background and a little at a time, for all who look at lists of it.

    seen = await survey_of(desk).seen()      # -> Seen, at once if the survey is warm; else after a first look
    async for seen in survey_of(desk).watch():  # -> Seen | Trouble, about every two seconds

`Seen` (values.py) has ``brokers``, ``topics`` and ``groups`` by name, ``hazards``, ``points`` and ``notes``. A
group that was not looked at yet is there with its name alone (``at_ms`` None).

A survey begins with the first who wants to know, and ends a minute after the last. Brokers are asked every two seconds;
groups and topics in turns, with a limit on questions a second and a pause as long as each look took. The more there
are, the longer is a round, and never the harder is a broker's work: each row says when it was seen. What only members
know is asked rarely, one group at a time.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from steelyard.client.admin.admin import Admin
from steelyard.client.checkup.groups import look_at_group
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.survey.notebook import Notebook
from steelyard.dashboard.survey.pace import Turns
from steelyard.dashboard.survey.values import Seen
from steelyard.dashboard.watching import Trouble
from steelyard.errors import SteelyardError
from steelyard.net.clock import now_ms, steady_ms

__all__ = ["Survey", "survey_of"]

_PERIOD_MS = 2_000
"""How often brokers are asked, and anything else at most."""
_LISTS_MS = 10_000
"""How often it is asked which topics and groups there are."""
_LINGER_MS = 60_000
_FORGOTTEN_MS = 60_000
"""A survey that rested for so long begins anew."""
_FIRST_MS = 800
"""For so long after it began whoever asks waits for rows; what was not seen by then comes later."""
_QUESTIONS_A_SECOND = 120
"""Of each of two walks: one through groups, one through topics."""
_A_GROUP_MS, _A_TOPIC_MS = 50, 60
"""How much longer a round is for each of them: so long is the time until one is looked at again."""
_CLOSE_LOOK_MS = 3_000
_TRY_AGAIN_S = 2.0
_NOBODYS_TURN_S = 0.05

_log = logging.getLogger("steelyard.page")


class Survey:
    """What is known of a cluster; it looks while somebody wants to know, and for a while afterwards."""

    def __init__(self, admin: Admin, closing: asyncio.Event) -> None:
        self._admin, self._closing = admin, closing
        self._book = Notebook()
        self._groups, self._topics = Turns(), Turns()
        self._began_ms = self._wanted_ms = self._rested_ms = 0
        self._watchers = 0
        self._looks = 0
        """How many times brokers were asked."""
        self._is_told = False
        """Whether everything was seen, and told."""
        self._trouble: Trouble | None = None
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def seen(self) -> Seen:
        """Return what was seen last; an error if not even name servers answer."""
        await self._first_look()
        if self._trouble is not None:
            raise self._trouble.error
        return self._book.seen

    async def watch(self) -> AsyncIterator[Seen | Trouble]:
        """Yield what was seen, now and each time that brokers were asked again."""
        self._watchers += 1
        try:
            await self._first_look()
            while True:
                news = self._news
                yield self._trouble or self._book.seen
                await news.wait()
        finally:
            self._watchers -= 1
            self._wanted_ms = steady_ms()

    async def _first_look(self) -> None:
        """Start looking, if nobody does, and wait for enough to show."""
        self._wanted_ms = steady_ms()
        if self._task is None or self._task.done():
            if self._wanted_ms - self._rested_ms > _FORGOTTEN_MS:
                self._book.forget()
                self._groups, self._topics, self._looks, self._is_told = Turns(), Turns(), 0, False
            self._task = asyncio.get_running_loop().create_task(self._run())
            self._began_ms = self._wanted_ms
        until_ms = self._began_ms + _FIRST_MS
        while not self._looks:
            await self._news.wait()
        while self._is_new and self._trouble is None and (left_ms := until_ms - steady_ms()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_ms / 1_000):
                    await self._news.wait()

    @property
    def _is_new(self) -> bool:
        return not (self._book.has_lists and self._groups.has_seen_all and self._topics.has_seen_all)

    # -- looking ------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        walks = [
            loop.create_task(_for_ever(work))
            for work in (
                self._list,
                lambda: self._walk(self._groups, self._look_at_group),
                lambda: self._walk(self._topics, self._look_at_topic),
                self._look_closely,
                self._ask_brokers,
            )
        ]
        try:
            while self._watchers or steady_ms() - self._wanted_ms < _LINGER_MS:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PERIOD_MS / 1_000):
                        await self._closing.wait()
                        return
        finally:
            for walk in walks:
                walk.cancel()
            await asyncio.gather(*walks, return_exceptions=True)
            self._rested_ms = steady_ms()

    async def _ask_brokers(self) -> None:
        began_ms = steady_ms()
        try:
            self._book.note_brokers(await self._admin.broker_flows(), now_ms())
            self._trouble = None
        except SteelyardError as error:
            self._trouble = Trouble(error)
        self._looks += 1
        self._tell()
        took_ms = steady_ms() - began_ms
        await asyncio.sleep(max(_PERIOD_MS - took_ms, took_ms) / 1_000)

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _tell_when_whole(self) -> None:
        """Tell at once when everything was seen for the first time: somebody waits for it."""
        if not self._is_told and not self._is_new:
            self._is_told = True
            self._tell()

    async def _list(self) -> None:
        """Ask which topics and groups there are."""
        began_ms = steady_ms()
        with suppress(SteelyardError):
            topics = await self._admin.topics(system=True)
            groups = await self._admin.group_names()
            self._topics.keep(self._book.note_topics(topics))
            self._groups.keep(self._book.note_groups(groups))
            self._tell_when_whole()
        took_ms = steady_ms() - began_ms
        await asyncio.sleep(max(_LISTS_MS, 20 * took_ms) / 1_000 if self._book.has_lists else _TRY_AGAIN_S)

    async def _walk(self, turns: Turns, look: Callable[[str], Awaitable[tuple[int, int]]]) -> None:
        """Look at whoever has the turn; a look tells what it cost in questions, and when the next is due."""
        began_ms = steady_ms()
        name = turns.take(began_ms)
        if name is None:
            await asyncio.sleep(_NOBODYS_TURN_S)
            return
        questions, period_ms = await look(name)
        turns.again(name, began_ms + period_ms)
        self._tell_when_whole()
        # As long as a look took is given back to the cluster, however slow it is.
        await asyncio.sleep(max(questions / _QUESTIONS_A_SECOND, (steady_ms() - began_ms) / 1_000))

    async def _look_at_group(self, name: str) -> tuple[int, int]:
        try:
            self._book.note_group(await self._admin.glance(name, self._book.view_of(name)))
        except SteelyardError as error:
            self._book.note_unseen_group(name, error.what, now_ms())
        return 1 + 2 * self._book.masters, max(_PERIOD_MS, _A_GROUP_MS * len(self._groups))

    async def _look_at_topic(self, name: str) -> tuple[int, int]:
        is_busy = False
        # One that is gone is left out of the next list.
        with suppress(SteelyardError):
            is_busy = self._book.note_topic(await self._admin.topic(name), now_ms())
        return 1 + self._book.masters, _PERIOD_MS if is_busy else max(_PERIOD_MS, _A_TOPIC_MS * len(self._topics))

    async def _look_closely(self) -> None:
        """Ask members what they hold, of one group of which no broker knows it."""
        await asyncio.sleep(_CLOSE_LOOK_MS / 1_000)
        name = self._book.least_known(now_ms())
        if name is not None:
            # Who does not answer now is asked again when it has the turn.
            with suppress(SteelyardError):
                view = await look_at_group(self._admin, name, self._book.close_view_of(name), is_known=True)
                self._book.note_closely(view)


async def _for_ever(work: Callable[[], Awaitable[None]]) -> None:
    """Do something again and again; a bug in it is said, and ends nothing."""
    while True:
        try:
            await work()
        except Exception:
            _log.exception("the survey met a bug")
            await asyncio.sleep(_TRY_AGAIN_S)


def survey_of(desk: Desk) -> Survey:
    """Return the survey of this page; it is made with the first question."""
    survey: Survey | None = desk.kept.get("survey")
    if survey is None:
        survey = desk.kept["survey"] = Survey(desk.admin, desk.closing)
    return survey
