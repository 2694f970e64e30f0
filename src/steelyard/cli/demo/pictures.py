"""What the demo prints, 80 columns wide: a line when something happens, and a row with a grid when queues moved.

A line that is printed stays as it is, so that a log file reads as a terminal does; there, where nothing can be shown
reversed, queues that moved are pointed at from below.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap

from rich.console import Console
from rich.text import Text

from steelyard.balance.explain import Change, Explanation, Why, explain, in_words
from steelyard.balance.ledger import Standing
from steelyard.cli.demo.archivist import Table
from steelyard.cli.demo.lake import WINDOW_S
from steelyard.cli.frame.counting import counted
from steelyard.cli.plan.draw import counts, grid
from steelyard.model import Queue

__all__ = ["Pictures", "reasons"]

_WIDE = 80
_WHAT = 20
_BAR = 32
_COLOURS = ("cyan", "magenta")


class Pictures:
    """The demo's page. Members keep their marks: the first is 1, whoever comes and goes."""

    def __init__(self, console: Console, queues: Sequence[Queue]) -> None:
        self._console, self._queues = console, queues
        self._brokers = list(dict.fromkeys(queue.broker for queue in queues))
        self._marks: dict[str, int] = {}
        self._owned: dict[str, list[Queue]] = {}
        self._start = time.monotonic()
        self.begin_ms = time.time_ns() // 1_000_000
        """When the page began: the times of its lines are counted from there, and Spark's windows."""

    def say(self, what: str, style: str = "") -> None:
        """Say what happens, and when."""
        self._print(what, f"{time.monotonic() - self._start:5.1f} s  ", style)

    def detail(self, what: str) -> None:
        """Say more of what was said before."""
        self._print(what, "    ", "dim")

    def number(self, name: str, number: int) -> None:
        """Show a number of the proof."""
        self._print(f"{name:<36} {number:>6}", "  ", "bold")

    def blank(self) -> None:
        """Leave a line empty."""
        self._console.print()

    def _print(self, what: str, lead: str, style: str = "") -> None:
        """Print a sentence, in several lines if it is long; one that is drawn is left as it is."""
        lines = wrap(what, _WIDE - len(lead), break_long_words=False) if len(lead + what) > _WIDE else [what]
        for place, line in enumerate(lines):
            self._console.print(f"{' ' * len(lead) if place else lead}{line}", style=style, soft_wrap=True)

    # -- who owns what ------------------------------------------------------------------------------------------------

    def head(self) -> None:
        """Draw the head of the grid."""
        columns = " ".join(f"{broker:<{self._width(broker)}}" for broker in self._brokers)
        self._console.print(f"  {'':<{_WHAT}}{columns}  each", style="dim")

    def row(self, what: str, owned: Mapping[str, Sequence[Queue]]) -> None:
        """Draw who owns what now; what moved is marked, and told below with the reason."""
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
        if told.moved and self._console.color_system is None:
            self._point_at({change.queue for change in told.changes if change.moved})
        for sentence in reasons(told):
            self.detail(sentence)
        self._owned = {member: list(mine) for member, mine in owned.items()}

    def _point_at(self, moved: set[Queue]) -> None:
        line = ""
        for broker in self._brokers:
            mine = (queue for queue in self._queues if queue.broker == broker)
            line += "".join("^" if queue in moved else " " for queue in mine).ljust(self._width(broker) + 1)
        self._console.print(f"  {'':<{_WHAT}}{line.rstrip()}", soft_wrap=True)

    def _width(self, broker: str) -> int:
        return max(len(broker), sum(queue.broker == broker for queue in self._queues))

    # -- which broker gets what ---------------------------------------------------------------------------------------

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
        self.detail(f"ledger: {standing.broker} {usual}{avoided}")

    def table(self, table: Table) -> None:
        """Draw Spark's table: a bar for each window of time, with a part for each broker."""
        fills = "█░" if self._can_show("█░") else "#-"
        names = "   ".join(f"{fill} {broker}" for fill, broker in zip(fills, self._brokers, strict=False))
        self._console.print(f"  {'stored in':<{_WHAT - 8}}{names:<{_BAR}}  messages", style="dim", soft_wrap=True)
        starts = sorted({start_ms for start_ms, _ in table})
        totals = [[table.get((start_ms, broker), 0) for broker in self._brokers] for start_ms in starts]
        most = max(map(sum, totals), default=0) or 1
        for start_ms, stored in zip(starts, totals, strict=True):
            begin = start_ms // 1000
            line = Text(f"  {f'{begin}-{begin + WINDOW_S} s':<{_WHAT - 8}}")
            for fill, colour, count in zip(fills, _COLOURS, stored, strict=False):
                line.append(fill * round(_BAR * count / most), colour)
            line.pad_right(_WHAT - 6 + _BAR - len(line))
            self._console.print(line.append(f"  {sum(stored):>8}"), soft_wrap=True)

    def _can_show(self, text: str) -> bool:
        try:
            text.encode(self._console.encoding)
        except (UnicodeEncodeError, LookupError):
            return False
        return True


def reasons(told: Explanation) -> Iterator[str]:
    """Tell what moved in few words: one sentence for all queues that went the same way, then the least possible.

    >>> queues = [Queue("orders", "broker-a", number) for number in range(4)]
    >>> list(reasons(explain({}, {"c1": queues}, queues)))
    ['4 queues to c1: nobody had them before']
    >>> list(reasons(explain({"c1": queues}, {"c1": queues[:2], "c2": queues[2:]}, queues)))
    ['2 queues from c1 to c2: c1 had 2 more than its share', '2 moved, and 2 is the least possible']
    """
    ways: dict[tuple[str | None, str | None], list[Change]] = {}
    for change in told.changes:
        if change.moved or change.why is Why.NEW_QUEUE:
            ways.setdefault((change.before, change.now), []).append(change)
    for (before, now), changes in ways.items():
        queues = counted(len(changes), "queue")
        if before is None:
            yield f"{queues} to {now}: nobody had {'it' if len(changes) == 1 else 'them'} before"
        else:
            yield f"{queues} from {before} to {now}: {in_words(changes[0]).partition(': ')[2]}"
    if told.moved:
        yield f"{told.moved} moved, and {told.least} is the least possible"
