"""One call of a handler as observers see it: from what a chunk knows before the call and after it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from steelyard.client.observing.observer import Incoming, Outcome
from steelyard.net.clock import steady_ns

if TYPE_CHECKING:
    from steelyard.client.consuming.job import Job
    from steelyard.client.observing.observing import Observing

__all__ = ["observed"]


@contextmanager
def observed(observing: "Observing", job: "Job") -> Iterator[None]:
    """Tell that the message that was begun last, or the whole batch, is handled within this context."""
    is_batch = job.handler.batch > 1
    messages = job.given
    began, failed = job.count, len(job.failed)
    ended = observing.handling(Incoming(messages, job.handle.queue, job.handler.name, is_batch))
    began_ns = steady_ns()
    try:
        yield
    except BaseException as error:
        # The loop wants it to end: nobody will hear what became of the message, and it comes again.
        ended(Outcome("left", error, steady_ns() - began_ns))
        raise
    took_ns = steady_ns() - began_ns
    if job.count < began:
        ended(Outcome("left", None, took_ns))
    elif len(job.failed) > failed:
        ended(Outcome("failed", job.error, took_ns))
    elif any(message.offset in job.delivery.later for message in messages):
        ended(Outcome("later", None, took_ns))
    else:
        ended(Outcome("done", None, took_ns))
