"""The blocking pull consumer: the asyncio one on the loop thread, with callbacks in a thread of their own."""

from collections.abc import Iterator
from typing import Unpack

from steelyard.client.config import NamesrvOrConfig, signature_with_options
from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.pull_consumer.options import PullConsumerOptions, PullConsumerSettings
from steelyard.client.pull_consumer.pull_consumer import PullConsumer as AsyncPullConsumer
from steelyard.client.sync.client import blocking, on_loop
from steelyard.client.sync.consumer import NotifyingSyncClient
from steelyard.model import Queue


class PullConsumer(NotifyingSyncClient[AsyncPullConsumer]):
    """Reads topics for a group, poll by poll.

    All options are in `PullConsumerOptions`; ``name`` is a part of its id, for people to recognise it by. Leaving the
    block by an exception, or the end of the process, counts nothing of the last poll as done.

    >>> from steelyard import Message, Producer
    >>> from steelyard.serve.embedded import Cluster
    >>> with Cluster() as cluster, Producer(cluster.namesrv) as producer:
    ...     sent = producer.send(Message("orders", b"order 1"))
    ...     with PullConsumer(cluster.namesrv, "report", start_from="first") as puller:
    ...         puller.subscribe("orders")
    ...         [message.body for message in puller.poll(timeout_s=20)]
    ...         puller.commit()
    [b'order 1']
    """

    def __init__(
        self,
        namesrv: NamesrvOrConfig = None,
        group: str = "",
        *,
        name: str | None = None,
        **settings: Unpack[PullConsumerSettings],
    ) -> None:
        super().__init__(AsyncPullConsumer(namesrv, group, name=name, **settings))

    __signature__ = signature_with_options(__init__, PullConsumerOptions)

    @property
    def options(self) -> PullConsumerOptions:
        """Its options."""
        return self._client.options

    def close(self, *, done: bool = True) -> None:
        """Release queues, leave and disconnect; a poll that waits in another thread returns nothing.

        With ``auto_commit`` the last poll counts as done, unless ``done`` is False.
        """
        if self.is_forked:
            return
        if not done:
            self._client.counts_last_poll = False
        super().close()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Close; after an exception the last poll does not count as done."""
        self.close(done=kind is None)

    def close_at_exit(self) -> None:
        """Close at exit: what the last poll returned may not have been processed."""
        self.close(done=False)

    subscribe = on_loop(AsyncPullConsumer.subscribe)
    assign = on_loop(AsyncPullConsumer.assign)
    commit = blocking(AsyncPullConsumer.commit)
    seek = blocking(AsyncPullConsumer.seek)
    position = blocking(AsyncPullConsumer.position)
    forget = on_loop(AsyncPullConsumer.forget)
    pause = on_loop(AsyncPullConsumer.pause)
    resume = on_loop(AsyncPullConsumer.resume)

    def poll(self, timeout_s: float = 1.0, most: int | None = None) -> list[ReceivedMessage]:
        """Return messages as soon as there are some; nothing after the timeout.

        At most ``most`` messages (default 500), some of each queue in turn, in order within a queue. With
        ``auto_commit`` the previous poll is done now. One poll at a time. What an interrupted poll, such as by Ctrl-C,
        did not return is returned by the next.
        """
        loop_thread, found = self._ensure_open(), list[ReceivedMessage]()

        async def poll() -> None:
            found.extend(await self._client.poll(timeout_s, most))

        try:
            loop_thread.run(poll())
        except Exception:
            raise
        except BaseException:
            loop_thread.call(lambda: self._client.put_back(found))
            raise
        return found

    def poll_one(self) -> ReceivedMessage | None:
        """Return the next message, however long that takes; None when the consumer is closed."""
        while not self._is_closed:
            found = self.poll(60.0, 1)
            if found:
                return found[0]
        return None

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Iterate over messages until the consumer is closed; each step is a poll."""
        while not self._is_closed and (found := self.poll_one()) is not None:
            yield found

    @property
    def assignment(self) -> tuple[Queue, ...]:
        """The queues that are read now: the assigned ones, or those that this member owns."""
        return self._ensure_open().call(lambda: self._client.assignment)

    @property
    def paused(self) -> frozenset[Queue]:
        """The queues that are paused."""
        return self._ensure_open().call(lambda: self._client.paused)

    explain = on_loop(AsyncPullConsumer.explain)
    queues = blocking(AsyncPullConsumer.queues)
    committed = blocking(AsyncPullConsumer.committed)
    begins = blocking(AsyncPullConsumer.begins)
    ends = blocking(AsyncPullConsumer.ends)
    offset_at = blocking(AsyncPullConsumer.offset_at)
