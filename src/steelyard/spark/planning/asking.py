"""What the driver asks of a cluster, each question waited for: a face of layout.py, spans.py and each_queue.py.

The lines are on the loop that the blocking clients of a process share. They are opened with the first question, and
`close` ends them.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from steelyard.client.conditions import check_condition
from steelyard.client.guard import Guard
from steelyard.client.hub import Hub
from steelyard.client.session import Session
from steelyard.errors import SteelyardError
from steelyard.model import FilterKind, Queue, Subscription
from steelyard.spark.options.checked import ReadOptions
from steelyard.spark.planning.each_queue import ask_committed, ask_times, sample, tell_committed
from steelyard.spark.planning.layout import Layout, ask_layout
from steelyard.spark.planning.spans import Spans, ask_spans

__all__ = ["Asking"]

T = TypeVar("T")


class Asking(Guard):
    """The driver's side of a cluster. Names go in and out as users write them."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__()
        self._options = options
        self._hub: Hub | None = None
        self._session: Session | None = None
        self._checked: set[str] = set()
        """Topics whose brokers were shown the condition."""

    def layout(self) -> Layout:
        """Ask the name servers which queues there are; raises NoNameServer.

        A condition in SQL92 is shown to the brokers of each topic once, and what they have against it is raised: some
        would return every message instead, and never say why.
        """
        return self._run(self._layout)

    def spans(self, queues: Iterable[Queue]) -> Spans:
        """Ask brokers where queues begin and end; a layout must have told of them."""
        return self._run(lambda session: ask_spans(session, queues))

    def at_times(self, times_ms: Mapping[Queue, int]) -> dict[Queue, int]:
        """Ask for the first message of each queue that was stored at a time or later; its end if there is none."""
        return self._run(lambda session: ask_times(session, self._options.pull_group, times_ms))

    def committed(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        """Ask how far the group is; queues where it never committed anything are left out."""
        return self._run(lambda session: ask_committed(session, self._options.pull_group, queues))

    def commit(self, offsets: Mapping[Queue, int]) -> dict[str, SteelyardError]:
        """Store how far the group is; return the brokers that did not take it, and why."""
        return self._run(lambda session: tell_committed(session, self._options.pull_group, offsets))

    def sample(self, places: Mapping[Queue, int]) -> tuple[int, int]:
        """Look at a few messages of each queue from an offset on; return how many there were, and their bytes."""
        return self._run(lambda session: sample(session, self._options.pull_group, places))

    def addresses(self) -> dict[str, str]:
        """Return where the brokers are that layouts told of."""
        session = self._session
        return {} if session is None else {name: session.address_of(name) for name in session.known_brokers()}

    def close(self) -> None:
        """Hang up; calling it again does nothing, and another question would connect again."""
        hub, self._hub = self._hub, None
        session, self._session = self._session, None
        if hub is None or self.is_elsewhere:
            return
        try:
            if session is not None:
                hub.run(session.close())
        finally:
            hub.give_back()

    async def _layout(self, session: Session) -> Layout:
        layout = await ask_layout(session, self._options.topics)
        if self._options.wanted is not None:
            kind, expression = self._options.wanted
            group = session.names.full(self._options.pull_group)
            for topic in layout.brokers.keys() - self._checked:
                wanted = Subscription(session.names.full(topic), expression, FilterKind(kind))
                await check_condition(session, group, wanted)
                self._checked.add(topic)
        return layout

    def _run(self, work: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        self.check_process()
        if self._hub is None:
            self._hub = Hub.take()

        async def connected() -> T:
            if self._session is None:
                session = Session(self._options.connect)
                await session.start()
                self._session = session
            return await work(self._session)

        return self._hub.run(connected())
