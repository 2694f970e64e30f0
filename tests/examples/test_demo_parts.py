"""The demo's parts: the proof counts honestly, pictures say what moved and why, what was started can be ended."""

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from examples.demo import spark_process
from examples.demo.delivery_report import DeliveryLog, DemoReport, SparkReport
from examples.demo.screen import DemoScreen
from examples.demo.spark_job import BatchArchived, ParquetCount
from examples.demo.spark_process import SparkProcess, kill_process_tree
from examples.demo.story import Waiter, catch_stop_signals
from steelyard.balance.producer.broker_latency import BrokerHealth
from steelyard.cli.shared.terminal import StopSignal
from steelyard.errors import TimedOut
from steelyard.model import Queue
from tests.waiting import until

QUEUES = [Queue("orders", broker, number) for broker in ("broker-0", "broker-1") for number in range(4)]


# -- the proof --------------------------------------------------------------------------------------------------------


def proof(sent: int, handled: list[tuple[int, str]], killed: str = "") -> DeliveryLog:
    made = DeliveryLog()
    for number in range(sent):
        made.record_sent(number, "broker-0")
    for number, member in handled:
        made.record_handled(number, member)
    if killed:
        made.record_killed(killed)
    return made


def shortcomings(
    made: DeliveryLog, codes: tuple[int, ...] = (0, 0), rows: tuple[int, int, int] | None = None
) -> list[str]:
    """Return what is told of a proof, of members' exit codes, and of rows, places and tabulated messages of Spark."""
    spark = None if rows is None else SparkReport(ParquetCount(rows[0], rows[1], 1, 1, 1), windowed_messages=rows[2])
    return list(DemoReport(made.count(), codes, spark).broken_promises())


def test_all_handled_once_is_proof() -> None:
    made = proof(2, [(0, "c1"), (1, "c2")])
    verdict = made.count()
    assert (verdict.sent, verdict.handled, verdict.lost, verdict.duplicates, verdict.duplicates_by_kill) == (
        2,
        2,
        0,
        0,
        0,
    )
    assert shortcomings(made) == shortcomings(made, rows=(2, 2, 2)) == []


@pytest.mark.parametrize(
    ("handled", "killed", "reported"),
    [
        ([(0, "c1")], "", "1 message of 2 never handled"),
        ([(0, "c1"), (1, "c1"), (1, "c2")], "", "1 message handled twice, which no kill explains"),
        # Nor does that of somebody else explain it, nor twice by the same, nor a third time.
        ([(0, "c1"), (1, "c1"), (1, "c3")], "c2", "1 message handled twice, which no kill explains"),
        ([(0, "c1"), (1, "c2"), (1, "c2")], "c2", "1 message handled twice, which no kill explains"),
        ([(0, "c1"), (1, "c2"), (1, "c1"), (1, "c3")], "c2", "1 message handled twice, which no kill explains"),
    ],
)
def test_what_no_crash_explains_is_no_proof(handled: list[tuple[int, str]], killed: str, reported: str) -> None:
    assert shortcomings(proof(2, handled, killed)) == [reported]


def test_a_second_time_because_of_a_crash_is_counted_apart() -> None:
    made = proof(2, [(0, "c1"), (1, "c2"), (1, "c1")], "c2")
    verdict = made.count()
    assert (verdict.duplicates, verdict.duplicates_by_kill, shortcomings(made)) == (0, 1, [])


def test_a_failed_send_and_nothing_sent_are_no_proof() -> None:
    made = proof(1, [(0, "c1")])
    made.record_failed()
    assert shortcomings(made) == ["1 send failed"]
    assert shortcomings(DeliveryLog()) == ["no message was sent"]


@pytest.mark.parametrize(
    ("rows", "reported"),
    [
        ((1, 1, 2), "Parquet has 1 of 2 messages"),
        ((3, 2, 2), "1 row in Parquet twice"),
        ((2, 2, 1), "Spark's windowed table counts 1 of 2 messages"),
    ],
)
def test_rows_that_spark_lost_or_has_twice_are_no_proof(rows: tuple[int, int, int], reported: str) -> None:
    assert shortcomings(proof(2, [(0, "c1"), (1, "c2")]), rows=rows) == [reported]


def test_a_member_that_does_not_leave_well_is_no_proof() -> None:
    reported = shortcomings(proof(1, [(0, "c1")]), codes=(0, 1))
    assert reported == ["members that were stopped ended with 0, 1"]


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["c1", "c2", "c3"])), max_size=20))
def test_every_message_is_counted_in_one_place(handled: list[tuple[int, str]]) -> None:
    made = proof(6, handled, "c2")
    verdict = made.count()
    again = sum(times > 1 for times in Counter(number for number, _ in handled).values())
    assert verdict.duplicates + verdict.duplicates_by_kill == again
    assert verdict.lost + verdict.handled == 6
    assert made.is_all_handled() is (verdict.lost == 0)


# -- pictures ---------------------------------------------------------------------------------------------------------


def test_pictures_fit_and_say_what_moved_and_why() -> None:
    out = StringIO()
    page = DemoScreen(Console(file=out, width=80, markup=False), QUEUES)
    page.print_grid_head()
    page.print_grid_row("c1 is alone", {"c1": QUEUES})
    page.print_grid_row("c2 joins", {"c1": QUEUES[:4], "c2": QUEUES[4:]})
    page.print_grid_row("c1 is killed (-9)", {"c2": QUEUES})
    page.print_broker_shares("before", Counter({"broker-0": 3, "broker-1": 1}))
    page.print_latency(BrokerHealth("broker-1", 803, 410, 0.0, 12_000, 10_000, "it took 803 ms"))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split() for line in lines] == [
        ["broker-0", "broker-1", "each"],
        ["c1", "is", "alone", "1111", "1111", "8"],
        "8 queues to c1: without an owner before".split(),
        ["c2", "joins", "1111", "2222", "4/4"],
        ["^^^^"],
        "4 queues from c1 to c2: c1 had 4 more than its share".split(),
        "4 moved, and 4 is the least possible".split(),
        ["c1", "is", "killed", "(-9)", "2222", "2222", "8"],
        ["^^^^"],
        "4 queues from c1 to c2: c1 left".split(),
        "4 moved, and 4 is the least possible".split(),
        ["before", "broker-0", "75", "%", "broker-1", "25", "%"],
        "latency: broker-1 usually takes 410 ms; avoided for 2.0 s: it took 803 ms".split(),
    ]
    for grid, pointer in ((3, 4), (7, 8)):
        moved = lines[pointer].index("^^^^")
        assert lines[grid][moved : moved + 4] == "2222"


@pytest.mark.parametrize("no_color", [False, True])
def test_a_terminal_shows_what_moved_reversed_and_needs_no_pointer(no_color: bool) -> None:
    out = StringIO()
    console = Console(file=out, width=80, markup=False, force_terminal=True, color_system="standard", no_color=no_color)
    page = DemoScreen(console, QUEUES)
    page.print_grid_row("c1 is alone", {"c1": QUEUES})
    page.print_grid_row("c2 joins", {"c1": QUEUES[:4], "c2": QUEUES[4:]})
    assert "^" not in out.getvalue()
    assert ("\x1b[7m2" if no_color else "\x1b[7;35m2") in out.getvalue()
    assert ("36m1" in out.getvalue()) is not no_color


def test_a_long_sentence_goes_on_below_its_beginning() -> None:
    out = StringIO()
    page = DemoScreen(Console(file=out, width=80, markup=False), QUEUES)
    page.print_event("the story goes on without Spark: " + "words " * 20)
    first, *others = out.getvalue().splitlines()
    assert first.startswith("  0.0 s  the story")
    assert others
    assert all(line.startswith("         words") and len(line) <= 80 for line in others)


@pytest.mark.parametrize(("encoding", "full", "half"), [("utf-8", "█", "░"), ("ascii", "#", "-")])
def test_the_windowed_table_is_drawn_with_what_the_screen_can_show(encoding: str, full: str, half: str) -> None:
    out = BytesIO()
    with TextIOWrapper(out, encoding=encoding, write_through=True) as file:
        page = DemoScreen(Console(file=file, width=80, markup=False), QUEUES)
        page.print_window_table({(0, "broker-0"): 40, (0, "broker-1"): 40, (5_000, "broker-0"): 20})
        head, *rows = out.getvalue().decode(encoding).splitlines()
    assert head.split() == ["stored", "in", full, "broker-0", half, "broker-1", "messages"]
    assert [row.split() for row in rows] == [
        ["0-5", "s", full * 16 + half * 16, "80"],
        ["5-10", "s", full * 8, "20"],
    ]
    assert len({len(row) for row in (head, *rows)}) == 1


# -- what was started can be ended ------------------------------------------------------------------------------------

# A process whose child has a session of its own, as Spark's Java has it.
_PARENT = (
    "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], "
    "start_new_session=True); print(child.pid, flush=True); child.wait()"
)


@pytest.mark.process
@pytest.mark.parametrize("proc", [Path("/proc"), Path("/no-proc")])
def test_a_family_is_killed_with_those_who_went_their_own_way(monkeypatch: pytest.MonkeyPatch, proc: Path) -> None:
    if not proc.is_dir() and shutil.which("ps") is None:
        pytest.skip("there is no ps")
    monkeypatch.setattr(spark_process, "_PROC", proc)
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        kill_process_tree(parent.pid)
        assert parent.wait() == -signal.SIGKILL
    assert child not in spark_process._parent_pids()
    kill_process_tree(parent.pid)  # one that is gone is fine


class ScriptedSparkProcess(SparkProcess):
    """Runs a program of the test's instead of Spark."""

    def __init__(self, directory: Path, program: str) -> None:
        super().__init__("localhost:1", "orders", directory, 0)
        self._command = [sys.executable, "-c", program]


@pytest.mark.process
def test_events_of_spark_are_kept_and_other_lines_skipped(tmp_path: Path) -> None:
    lines = (
        "WARNING: something of Java's",
        '{"type":"started","took_s":1.5}',
        '{"type":"window","start_ms":0,"broker":"broker-0","messages":3}',
        '{"type":"window","start_ms":0,"broker":"broker-0","messages":5}',
        '{"type":"archived","number":0,"rows":5}',
    )
    lake = '{"type":"lake","messages":5,"distinct_places":5,"files":1,"fullest":3,"emptiest":2}'
    spark = ScriptedSparkProcess(tmp_path, f"print({chr(10).join(lines)!r}, flush=True); input(); print({lake!r})")
    assert spark.activity == "Java and Spark are starting"
    spark.start()
    until(spark.has_written)
    assert spark.activity == "Spark has written batch 0"
    assert (spark.up_after_s, spark.table(), spark.archived) == (1.5, {(0, "broker-0"): 5}, [BatchArchived(0, 5)])
    assert spark.lake is None
    spark.finish()
    until(lambda: spark.lake is not None)
    assert spark.failure == ""
    spark.kill()


@pytest.mark.process
def test_a_spark_that_ends_without_an_answer_is_reported_with_its_last_words(tmp_path: Path) -> None:
    spark = ScriptedSparkProcess(tmp_path, "import sys; sys.exit('Java did not start')")
    spark.start()
    until(lambda: bool(spark.failure))
    assert spark.failure == "Java did not start"
    spark.finish()  # and it may be told anything
    spark.kill()
    spark.kill()
    assert spark.failure == ""


# -- waiting ----------------------------------------------------------------------------------------------------------


def test_every_stop_signal_is_handled_and_none_cuts_anything_off() -> None:
    before = signal.getsignal(signal.SIGINT)
    with catch_stop_signals() as ending:
        for wish in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), wish)
        assert ending
        with pytest.raises(KeyboardInterrupt):
            Waiter(ending, 1.0, str, print).pause(60)
    assert signal.getsignal(signal.SIGINT) is before


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with catch_stop_signals() as ending:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not ending
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_never_comes_true_is_reported_with_what_may_be_the_matter() -> None:
    patience = Waiter(StopSignal(), 0.0, lambda: "c1: nobody is there", print)
    with pytest.raises(TimedOut, match=r"the demo ends here: that it rains did not come true \(c1: nobody is there\)"):
        patience.wait_for_or_fail("it rains", lambda: False)
    patience.wait_for_or_fail("it is so", lambda: True)


def test_a_long_wait_says_again_and_again_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("examples.demo.story._REPORT_EVERY_S", 0.001)
    reported: list[str] = []
    Waiter(StopSignal(), 60.0, str, reported.append).wait_for_or_fail("it rains", lambda: len(reported) == 3)
    assert set(reported) == {"0 s: still waiting until it rains"}
    reported.clear()
    Waiter(StopSignal(), 60.0, str, reported.append, lambda: "clouds come").wait_for_or_fail(
        "it rains", lambda: bool(reported)
    )
    assert reported == ["0 s: clouds come"]
