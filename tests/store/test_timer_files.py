"""The timer files for Apache, byte by byte, and that no moment of writing them makes it lose one."""

from struct import Struct as Layout

from simulator.disk import SimulatedDisk
from steelyard.store.timer_files import (
    TIMER_CHECKPOINT_PATH,
    TIMER_LOG_FOLDER,
    TimerCheckpoint,
    WaitingTimer,
    read_timer_checkpoint,
    write_open_timers,
    write_waiting_timers,
)
from tests.store.crash_points import every_end

_NOW_MS = 1_700_000_000_500
_ENTRY = Layout(">iqiqiqiiq")
_LAST = WaitingTimer(0, 900, 90)
_DAY_MS = 24 * 3_600_000


def _entries(disk: SimulatedDisk) -> list[tuple[int, ...]]:
    content = (disk.read(f"{TIMER_LOG_FOLDER}/{'0' * 20}") or b"").rstrip(b"\0")
    count = -(-len(content) // _ENTRY.size)
    return [_ENTRY.unpack_from(content.ljust(count * _ENTRY.size, b"\0"), at * _ENTRY.size) for at in range(count)]


def _made() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.mkdir("steelyard")
    return disk


def test_timers_of_one_second_are_a_chain_and_the_last_of_all_lies_where_nobody_looks() -> None:
    disk = _made()
    timers = [WaitingTimer(_NOW_MS + ms, 100 + ms, 80) for ms in (1_600, 1_700, 9_000)]
    assert write_waiting_timers(disk, timers, _LAST, now_ms=_NOW_MS, first_open=3, end=7)
    read_ms = 1_700_000_000_000
    assert read_timer_checkpoint(disk) == TimerCheckpoint(read_ms, 7)
    assert len(disk.read(TIMER_CHECKPOINT_PATH) or b"") == 4096
    assert _entries(disk) == [
        (52, -1, 1, read_ms, 2_099, 1_700, 80, 0, 0),
        (52, 0, 1, read_ms, 2_199, 1_800, 80, 0, 0),
        (52, -1, 1, read_ms, 9_499, 9_100, 80, 0, 0),
        (52, -1, 1, read_ms, -1, 900, 90, 0, 0),
    ]


def test_a_timer_beyond_the_wheel_is_looked_at_again_before_it_is_due() -> None:
    disk = _made()
    far = WaitingTimer(_NOW_MS + 30 * _DAY_MS, 100, 80)
    assert write_waiting_timers(disk, [far], _LAST, now_ms=_NOW_MS, first_open=0, end=1)
    _, _, magic, written_ms, delay_ms, position, _, _, _ = _entries(disk)[0]
    assert (magic, position) == (3, 100)
    assert 6 * _DAY_MS < written_ms + delay_ms - _NOW_MS < 7 * _DAY_MS


def test_what_does_not_fit_into_a_file_is_looked_at_anew() -> None:
    disk = _made()
    disk.mkdir(TIMER_LOG_FOLDER)
    file = disk.open(f"{TIMER_LOG_FOLDER}/{'0' * 20}", create=True)
    file.truncate(3 * 52)
    timers = [WaitingTimer(_NOW_MS + number, number, 80) for number in range(1, 9)]
    assert not write_waiting_timers(disk, timers, _LAST, now_ms=_NOW_MS, first_open=3, end=11)
    assert read_timer_checkpoint(disk) == TimerCheckpoint(1_700_000_000_000, 3)
    assert disk.names(TIMER_LOG_FOLDER) == []


def test_files_are_as_large_as_those_that_apache_left() -> None:
    disk = _made()
    disk.mkdir(TIMER_LOG_FOLDER)
    file = disk.open(f"{TIMER_LOG_FOLDER}/{52_000:020}", create=True)
    file.truncate(52_000)
    write_waiting_timers(disk, [_LAST._replace(due_ms=_NOW_MS + 5)], _LAST, now_ms=_NOW_MS, first_open=0, end=1)
    assert disk.names(TIMER_LOG_FOLDER) == ["0" * 20]
    assert disk.open(f"{TIMER_LOG_FOLDER}/{'0' * 20}").size == 52_000


def test_half_a_file_says_nothing() -> None:
    disk = _made()
    disk.mkdir("config")
    assert read_timer_checkpoint(disk) is None
    disk.open(TIMER_CHECKPOINT_PATH, create=True).write(0, bytes(31))
    assert read_timer_checkpoint(disk) is None


def test_at_no_moment_is_a_timer_left_out() -> None:
    """Timers 3 to 6 wait: whoever says that those before an offset were looked at has them in its list."""

    def prepare() -> SimulatedDisk:
        disk = _made()
        write_open_timers(disk, 1_000, 2)
        disk.mkdir(TIMER_LOG_FOLDER)
        file = disk.open(f"{TIMER_LOG_FOLDER}/{52_000:020}", create=True)
        file.truncate(52_000)
        file.sync()
        for folder in ("", TIMER_LOG_FOLDER):
            disk.sync_folder(folder)
        return disk

    waiting = [WaitingTimer(_NOW_MS + 10 * number, number, 80) for number in range(3, 7)]

    def tell(disk: SimulatedDisk) -> None:
        write_waiting_timers(disk, waiting, _LAST, now_ms=_NOW_MS, first_open=3, end=8)
        write_open_timers(disk, 1_000, 3)

    for end in every_end(prepare, tell):
        checkpoint = read_timer_checkpoint(end)
        assert checkpoint is not None
        listed = {entry[5] for entry in _entries(end)}
        assert all(number in listed or number >= checkpoint.queue_offset for number in range(3, 7)), end
