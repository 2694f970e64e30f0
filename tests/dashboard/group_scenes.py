"""Groups for tests of pages: members that share a topic, messages that were given up, and command lines that work."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from steelyard import Admin, Consumer, Message, Producer, StoredMessage
from tests.docs.commands import Shown, command_complaint
from tests.live.clusters import until


def check_command(line: str) -> list[str]:
    """Check that a command line that a page shows is understood by the real one; return its words."""
    first, *words = shlex.split(line)
    assert first == "steelyard"
    assert not command_complaint(Shown("the page", 1, tuple(words)))
    return words


def _ignore(_: StoredMessage) -> None:
    """Handle a message by doing nothing."""


@contextmanager
def run_members(
    namesrv: str,
    group: str,
    topic: str,
    *names: str,
    handle: Callable[[StoredMessage], object] = _ignore,
    strategy: str = "sticky",
    of: int | None = None,
) -> Iterator[list[Consumer]]:
    """Run members of a group by these names; all that it has then, or ``of`` so many, have their shares first."""
    with ExitStack() as stack, Admin(namesrv) as admin:
        running = []
        for name in names:
            consumer = Consumer(namesrv, group, name=name, start_from="first", strategy=strategy)
            consumer.handles(topic)(handle)
            running.append(stack.enter_context(consumer))
        wait_until_settled(admin, group, of or len(names))
        yield running


def wait_until_settled(admin: Admin, group: str, count: int) -> None:
    """Wait until a group has so many members, and every queue an owner."""

    def is_settled() -> bool:
        if group not in admin.groups.names():
            return False
        view = admin.groups.describe(group)
        shares = [len(mine) for mine in view.owned().values()]
        return (
            len(view.members) == count == len(shares)
            and bool(view.queues)
            and all(each.owner for each in view.queues)
            and max(shares) - min(shares) <= 1 + len(view.topics)
        )

    until(is_settled, f"{count} members of {group} share all queues")


def give_up(namesrv: str, group: str, topic: str, *bodies: bytes) -> None:
    """Send messages and let a group give each up after its first attempt; nobody of it stays."""

    def refuse(_: StoredMessage) -> None:
        raise ValueError("no")

    with Admin(namesrv) as admin, Producer(namesrv) as producer:
        admin.groups.create(group, retries=0)
        consumer = Consumer(namesrv, group, start_from="first")
        consumer.handles(topic)(refuse)
        for number, body in enumerate(bodies):
            producer.send(Message(topic, body, keys=f"key-{number}", tags="sad"))
        with consumer:
            until(lambda: len(admin.dead_letters.list(group)) >= len(bodies), f"{len(bodies)} are given up")
