"""What the demo prints, 80 columns wide: a line for each event, and a row of a grid after each rebalance.

A printed line is never redrawn, so a log file reads like a terminal. Where nothing can be shown reversed, marks below
the grid point at queues that moved.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap

from rich.console import Console
from rich.text import Text

from examples.demo.spark_job import WINDOW_S
from examples.demo.spark_process import WindowTable
from steelyard.balance.assignors.explain import ChangeReason, Explanation, QueueChange, describe_change, explain
from steelyard.balance.producer.broker_latency import BrokerHealth
from steelyard.cli.shared.tables import queue_counts, queue_grid
from steelyard.model import Queue
from steelyard.model.formatting import pluralize

_WIDTH = 80
_LABEL_WIDTH = 20
_BAR_WIDTH = 32
_COLOURS = ("cyan", "magenta")


class DemoScreen:
    """Prints the demo. Members keep their marks while others come and go: the first is 1."""

    def __init__(self, console: Console, queues: Sequence[Queue]) -> None:
        self._console, self._queues = console, queues
        self._brokers = list(dict.fromkeys(queue.broker for queue in queues))
        self._marks: dict[str, int] = {}
        self._owned: dict[str, list[Queue]] = {}
        self._start = time.monotonic()
        self.begin_ms = time.time_ns() // 1_000_000
        """When the demo began: the times of its lines and Spark's windows count from here."""

    def print_event(self, what: str, style: str = "") -> None:
        """Print an event with its time."""
        self._print_wrapped(what, f"{time.monotonic() - self._start:5.1f} s  ", style)

    def print_detail(self, what: str) -> None:
        """Print a detail of the event before."""
        self._print_wrapped(what, "    ", "dim")

    def print_number(self, name: str, number: int) -> None:
        """Print a number of the report."""
        self._print_wrapped(f"{name:<36} {number:>6}", "  ", "bold")

    def print_blank(self) -> None:
        """Print an empty line."""
        self._console.print()

    def _print_wrapped(self, what: str, lead: str, style: str = "") -> None:
        """Print a sentence, in several lines if it is too long for one."""
        lines = wrap(what, _WIDTH - len(lead), break_long_words=False) if len(lead + what) > _WIDTH else [what]
        for place, line in enumerate(lines):
            self._console.print(f"{' ' * len(lead) if place else lead}{line}", style=style, soft_wrap=True)

    def print_grid_head(self) -> None:
        """Print the head of the grid."""
        columns = " ".join(f"{broker:<{self._broker_width(broker)}}" for broker in self._brokers)
        self._console.print(f"  {'':<{_LABEL_WIDTH}}{columns}  each", style="dim")

    def print_grid_row(self, what: str, owned: Mapping[str, Sequence[Queue]]) -> None:
        """Print who owns which queue; queues that moved are marked, with the reasons below."""
        for member in owned:
            self._marks.setdefault(member, len(self._marks))
        explanation = explain(self._owned, owned, self._queues)
        before = {queue: member for member, mine in self._owned.items() for queue in mine}
        line = Text(f"  {what:<{_LABEL_WIDTH}}")
        for broker in self._brokers:
            picture = queue_grid(
                [queue for queue in self._queues if queue.broker == broker], owned, before, self._marks
            )
            picture.pad_right(self._broker_width(broker) - len(picture))
            line.append_text(picture).append(" ")
        self._console.print(line.append(f" {queue_counts(owned)}"), soft_wrap=True)
        if explanation.moved and self._console.color_system is None:
            self._mark_moved({change.queue for change in explanation.changes if change.moved})
        for sentence in move_reasons(explanation):
            self.print_detail(sentence)
        self._owned = {member: list(mine) for member, mine in owned.items()}

    def _mark_moved(self, moved: set[Queue]) -> None:
        line = ""
        for broker in self._brokers:
            mine = (queue for queue in self._queues if queue.broker == broker)
            line += "".join("^" if queue in moved else " " for queue in mine).ljust(self._broker_width(broker) + 1)
        self._console.print(f"  {'':<{_LABEL_WIDTH}}{line.rstrip()}", soft_wrap=True)

    def _broker_width(self, broker: str) -> int:
        return max(len(broker), sum(queue.broker == broker for queue in self._queues))

    def print_broker_shares(self, what: str, sent: Counter[str]) -> None:
        """Print the share of messages of each broker."""
        total = sum(sent.values()) or 1
        parts = "   ".join(f"{broker} {100 * sent[broker] / total:3.0f} %" for broker in self._brokers)
        self._console.print(f"  {what:<{_LABEL_WIDTH}}{parts}", soft_wrap=True)

    def print_latency(self, health: BrokerHealth) -> None:
        """Print the latency of a broker as a producer measures it."""
        usual = "never answered" if health.usual_ms is None else f"usually takes {health.usual_ms} ms"
        since_ms, until_ms = health.avoided_since_ms, health.avoided_until_ms
        avoided = ""
        if since_ms is not None and until_ms is not None:
            avoided = f"; avoided for {(until_ms - since_ms) / 1000:.1f} s: {health.why}"
        self.print_detail(f"latency: {health.broker} {usual}{avoided}")

    def print_window_table(self, table: WindowTable) -> None:
        """Print Spark's table: a bar for each window, with a part for each broker."""
        fills = "█░" if self._can_encode("█░") else "#-"
        names = "   ".join(f"{fill} {broker}" for fill, broker in zip(fills, self._brokers, strict=False))
        self._console.print(
            f"  {'stored in':<{_LABEL_WIDTH - 8}}{names:<{_BAR_WIDTH}}  messages", style="dim", soft_wrap=True
        )
        starts = sorted({start_ms for start_ms, _ in table})
        totals = [[table.get((start_ms, broker), 0) for broker in self._brokers] for start_ms in starts]
        most = max(map(sum, totals), default=0) or 1
        for start_ms, stored in zip(starts, totals, strict=True):
            begin = start_ms // 1000
            line = Text(f"  {f'{begin}-{begin + WINDOW_S} s':<{_LABEL_WIDTH - 8}}")
            for fill, colour, count in zip(fills, _COLOURS, stored, strict=False):
                line.append(fill * round(_BAR_WIDTH * count / most), colour)
            line.pad_right(_LABEL_WIDTH - 6 + _BAR_WIDTH - len(line))
            self._console.print(line.append(f"  {sum(stored):>8}"), soft_wrap=True)

    def _can_encode(self, text: str) -> bool:
        try:
            text.encode(self._console.encoding)
        except (UnicodeEncodeError, LookupError):
            return False
        return True


def move_reasons(explanation: Explanation) -> Iterator[str]:
    """Yield one sentence for all queues that moved between the same members, then the minimum number of moves.

    >>> queues = [Queue("orders", "broker-a", number) for number in range(4)]
    >>> list(move_reasons(explain({}, {"c1": queues}, queues)))
    ['4 queues to c1: without an owner before']
    >>> list(move_reasons(explain({"c1": queues}, {"c1": queues[:2], "c2": queues[2:]}, queues)))
    ['2 queues from c1 to c2: c1 had 2 more than its share', '2 moved, and 2 is the least possible']
    """
    ways: dict[tuple[str | None, str | None], list[QueueChange]] = {}
    for change in explanation.changes:
        if change.moved or change.why is ChangeReason.NEW_QUEUE:
            ways.setdefault((change.before, change.now), []).append(change)
    for (before, now), changes in ways.items():
        queues = pluralize(len(changes), "queue")
        if before is None:
            yield f"{queues} to {now}: without an owner before"
        else:
            yield f"{queues} from {before} to {now}: {describe_change(changes[0]).partition(': ')[2]}"
    if explanation.moved:
        yield f"{explanation.moved} moved, and {explanation.least} is the least possible"
