"""The puller of plain programs: the asyncio one, on the loop thread of the process.

Callbacks for moves and hazards are called one after the other in a thread of theirs.
"""

from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import TypeVar, Unpack

from steelyard.balance.hazards import Hazard
from steelyard.client.blocking.face import Face, looks, waits
from steelyard.client.blocking.teller import Teller
from steelyard.client.connect import Where
from steelyard.client.consuming.news import Moved
from steelyard.client.consuming.received import Received
from steelyard.client.pulling.puller import Puller as AsyncPuller
from steelyard.client.pulling.puller_options import PullerOptions, PullerSettings
from steelyard.model import Queue

__all__ = ["Puller"]

M = TypeVar("M", bound=Callable[[Moved], object])
H = TypeVar("H", bound=Callable[[Hazard], object])


class Puller(Face[AsyncPuller]):
    """Reads topics for a group, poll by poll.

        with Puller("localhost:9876", group="report") as puller:
            puller.subscribe("orders")
            for message in puller.poll(timeout_s=1):
                ...
            puller.commit()

    Its options are those of `PullerOptions`; ``name`` is a part of its id, for people to recognise it by. Leaving the
    block by an exception counts nothing of the last poll as done, and so does the end of the process.
    """

    def __init__(
        self, where: Where = None, group: str = "", *, name: str | None = None, **settings: Unpack[PullerSettings]
    ) -> None:
        super().__init__(AsyncPuller(where, group, name=name, **settings))
        self._teller = Teller()

    @property
    def options(self) -> PullerOptions:
        """How it is set up."""
        return self._client.options

    @property
    def id(self) -> str:
        """Its client id."""
        return self._client.id

    # -- its life -----------------------------------------------------------------------------------------------------

    def close(self, *, done: bool = True) -> None:
        """Hand over, leave and hang up; a poll that waits in another thread returns nothing.

        With ``auto_commit`` what the last poll returned counts as done, unless ``done`` is False.
        """
        if self.is_elsewhere:
            return
        if not done:
            self._client.counts_last_poll = False
        super().close()
        self._teller.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an exception what the last poll returned does not count as done."""
        self.close(done=kind is None)

    def close_at_exit(self) -> None:
        """Close what nobody closed: what the last poll returned may not have been dealt with."""
        self.close(done=False)

    # -- reading ------------------------------------------------------------------------------------------------------

    subscribe = looks(AsyncPuller.subscribe)
    assign = looks(AsyncPuller.assign)
    poll = waits(AsyncPuller.poll)
    poll_one = waits(AsyncPuller.poll_one)
    commit = waits(AsyncPuller.commit)
    seek = waits(AsyncPuller.seek)
    position = waits(AsyncPuller.position)
    pause = looks(AsyncPuller.pause)
    resume = looks(AsyncPuller.resume)

    def __iter__(self) -> Iterator[Received]:
        """Iterate over messages, one by one, until the puller is closed; to ask for the next one is to poll."""
        while not self._is_closed and (found := self.poll_one()) is not None:
            yield found

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> tuple[Queue, ...]:
        """The queues that are read now: those assigned, or those that are this member's share."""
        return self._ready().call(lambda: self._client.assignment)

    @property
    def paused(self) -> frozenset[Queue]:
        """The queues that are paused."""
        return self._ready().call(lambda: self._client.paused)

    explain = looks(AsyncPuller.explain)
    queues = waits(AsyncPuller.queues)
    committed = waits(AsyncPuller.committed)
    begins = waits(AsyncPuller.begins)
    ends = waits(AsyncPuller.ends)
    offset_at = waits(AsyncPuller.offset_at)

    def on_move(self, function: M) -> M:
        """Have a function told when queues come and go; it gets a `Moved`."""
        self._client.on_move(partial(self._teller.tell, function))
        return function

    def on_hazard(self, function: H) -> H:
        """Have a function told when something looks wrong; it gets a `Hazard`."""
        self._client.on_hazard(partial(self._teller.tell, function))
        return function
