"""What the demo prints, 80 columns wide: a line when something happens, and a row with a grid when queues moved."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from steelyard.balance.explain import Change, Explanation, explain, in_words
from steelyard.balance.ledger import Standing
from steelyard.cli.demo.lake import WINDOW_S, Lake
from steelyard.cli.plan.draw import counts, grid
from steelyard.model import Queue

__all__ = ["Pictures", "reasons"]

_WHAT = 20
_BAR = 40


class Pictures:
    """The demo's page. Members keep their marks: the first is 1, whoever comes and goes."""

    def __init__(self, console: Console, queues: Sequence[Queue]) -> None:
        self._console, self._queues = console, queues
        self._brokers = list(dict.fromkeys(queue.broker for queue in queues))
        self._marks: dict[str, int] = {}
        self._owned: dict[str, list[Queue]] = {}
        self._start = time.monotonic()

    def say(self, what: str, style: str = "") -> None:
        """Say what happens, and when."""
        self._console.print(f"{time.monotonic() - self._start:5.1f} s  {what}", style=style, soft_wrap=True)

    def blank(self) -> None:
        """Leave a line empty."""
        self._console.print()

    def head(self) -> None:
        """Draw the head of the grid."""
        columns = " ".join(f"{broker:<{self._width(broker)}}" for broker in self._brokers)
        self._console.print(f"  {'':<{_WHAT}}{columns}  each", style="dim")

    def row(self, what: str, owned: Mapping[str, Sequence[Queue]]) -> None:
        """Draw who owns what now; what moved is shown reversed, and told below with the reason."""
        for member in owned:
            self._marks.setdefault(member, len(self._marks))
        told = explain(self._owned, owned, self._queues)
        before = {queue: member for member, mine in self._owned.items() for queue in mine}
        line = Text(f"  {what:<{_WHAT}}")
        for broker in self._brokers:
            picture = grid([queue for queue in self._queues if queue.broker == broker], owned, before, self._marks)
            picture.pad_right(self._width(broker) - len(picture))
            line.append_text(picture).append(" ")
        self._console.print(line.append(f" {counts(owned)}"), soft_wrap=True)
        for sentence in reasons(told):
            self._console.print(f"    {sentence}", style="dim", soft_wrap=True)
        self._owned = {member: list(mine) for member, mine in owned.items()}

    def shares(self, what: str, sent: Counter[str]) -> None:
        """Draw which broker got how much."""
        total = sum(sent.values()) or 1
        parts = "   ".join(f"{broker} {100 * sent[broker] / total:3.0f} %" for broker in self._brokers)
        self._console.print(f"  {what:<{_WHAT}}{parts}", soft_wrap=True)

    def standing(self, standing: Standing) -> None:
        """Tell what a producer's ledger says of a broker."""
        usual = "never answered" if standing.usual_ms is None else f"usually takes {standing.usual_ms} ms"
        since_ms, until_ms = standing.avoided_since_ms, standing.avoided_until_ms
        avoided = ""
        if since_ms is not None and until_ms is not None:
            avoided = f"; avoided for {(until_ms - since_ms) / 1000:.1f} s: {standing.why}"
        self._console.print(f"    ledger: {standing.broker} {usual}{avoided}", style="dim", soft_wrap=True)

    def detail(self, what: str) -> None:
        """Say more of what was said before."""
        self._console.print(Padding(what, (0, 0, 0, 4)), style="dim")

    def lake(self, lake: Lake) -> None:
        """Draw what Spark counted: messages by windows of time, and the fullest and the emptiest queue."""
        self.say(f"{lake.messages} rows in {lake.files} files; stored in windows of {WINDOW_S} seconds:")
        most = max((count for _, count in lake.windows), default=1)
        for begin, count in lake.windows:
            self._console.print(f"  {begin:<{_WHAT}}{'▇' * max(1, _BAR * count // most)} {count}", soft_wrap=True)
        self.detail(f"the fullest queue has {lake.fullest} messages, the emptiest {lake.emptiest}")

    def _width(self, broker: str) -> int:
        return max(len(broker), sum(queue.broker == broker for queue in self._queues))


def reasons(told: Explanation) -> Iterator[str]:
    """Tell what moved in few words: one sentence for all queues that went the same way, then the least possible.

    >>> queues = [Queue("orders", "broker-a", number) for number in range(4)]
    >>> list(reasons(explain({"c1": queues}, {"c1": queues[:2], "c2": queues[2:]}, queues)))
    ['2 queues from c1 to c2: c1 had 2 more than its share', '2 moved, and 2 is the least possible']
    """
    ways: dict[tuple[str | None, str | None], list[Change]] = {}
    for change in told.changes:
        if change.moved:
            ways.setdefault((change.before, change.now), []).append(change)
    for (before, now), changes in ways.items():
        why = in_words(changes[0]).partition(": ")[2]
        yield f"{len(changes)} {'queue' if len(changes) == 1 else 'queues'} from {before} to {now}: {why}"
    if told.moved:
        yield f"{told.moved} moved, and {told.least} is the least possible"
