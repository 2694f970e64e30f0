"""The puller of plain programs: the asyncio one, on the loop thread of the process.

Callbacks for moves and hazards are called one after the other in a thread of theirs.
"""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TypeVar, Unpack

from steelyard.balance.hazards import Hazard
from steelyard.client.blocking.face import Face, looks, waits
from steelyard.client.blocking.teller import Teller
from steelyard.client.connect import Where
from steelyard.client.consuming.news import Moved
from steelyard.client.consuming.received import Received
from steelyard.client.keywords import with_options
from steelyard.client.pulling.puller import Puller as AsyncPuller
from steelyard.client.pulling.puller_options import PullerOptions, PullerSettings
from steelyard.model import Queue

__all__ = ["Puller"]

M = TypeVar("M", bound=Callable[[Moved], object])
H = TypeVar("H", bound=Callable[[Hazard], object])


class Puller(Face[AsyncPuller]):
    """Reads topics for a group, poll by poll.

    Its options are those of `PullerOptions`; ``name`` is a part of its id, for people to recognise it by. Leaving the
    block by an exception counts nothing of the last poll as done, and so does the end of the process.

    >>> from steelyard import Message, Producer
    >>> from steelyard.serve.embedded import Cluster
    >>> with Cluster() as cluster, Producer(cluster.namesrv) as producer:
    ...     sent = producer.send(Message("orders", b"order 1"))
    ...     with Puller(cluster.namesrv, "report", start_from="first") as puller:
    ...         puller.subscribe("orders")
    ...         [message.body for message in puller.poll(timeout_s=20)]
    ...         puller.commit()
    [b'order 1']
    """

    def __init__(
        self, where: Where = None, group: str = "", *, name: str | None = None, **settings: Unpack[PullerSettings]
    ) -> None:
        super().__init__(AsyncPuller(where, group, name=name, **settings))
        self._teller = Teller()

    __signature__ = with_options(__init__, PullerOptions)

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
    commit = waits(AsyncPuller.commit)
    seek = waits(AsyncPuller.seek)
    position = waits(AsyncPuller.position)
    forget = looks(AsyncPuller.forget)
    pause = looks(AsyncPuller.pause)
    resume = looks(AsyncPuller.resume)

    def poll(self, timeout_s: float = 1.0, most: int | None = None) -> list[Received]:
        """Return what is there, as soon as something is; nothing if nothing comes in time.

        At most ``most`` messages (500 if not said), some of each queue in turn, in order within a queue. With
        ``auto_commit`` what the poll before returned is done now. One poll at a time. What a poll that is interrupted,
        such as by Ctrl-C, did not come to return is returned by the next.
        """
        hub, found = self._ready(), list[Received]()

        async def poll() -> None:
            found.extend(await self._client.poll(timeout_s, most))

        try:
            hub.run(poll())
        except Exception:
            raise
        except BaseException:
            hub.call(lambda: self._client.take_back(found))
            raise
        return found

    def poll_one(self) -> Received | None:
        """Return the next message, however long that takes; None when the puller is closed."""
        while not self._is_closed:
            found = self.poll(60.0, 1)
            if found:
                return found[0]
        return None

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
        self._client.on_move(self._teller.telling(function))
        return function

    def on_hazard(self, function: H) -> H:
        """Have a function told when something looks wrong; it gets a `Hazard`."""
        self._client.on_hazard(self._teller.telling(function))
        return function
