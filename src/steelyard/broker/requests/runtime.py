"""How a broker is right now, as Apache's tools print it: 28 GET_BROKER_RUNTIME_INFO, 907 GET_BROKER_HA_STATUS.

The first is a table of texts. Tools fail on a name that is missing, so every name of 4.9 and of 5.x is here, both
spellings of those that changed; what a broker like this one has not (thread pools with queues, buffers outside the
heap) says 0. The share of the disk that the log takes is told of what the log has and may still get: what others wrote
there is not the broker's to judge. Ours also get a report with the disk, the flushing and what the last start found.
"""

from collections.abc import Iterable, Mapping

from steelyard.broker.handlers import Handler
from steelyard.broker.state import State
from steelyard.store.marks import SCHEDULE_TOPIC
from steelyard.store.recovery import CUT_OFF
from steelyard.store.walk import Damage
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.replicas import Replication
from steelyard.wire.bodies.reports import REPORT_NAME, BrokerReport, DamageReport, RecoveryReport
from steelyard.wire.bodies.shared import TextTable
from steelyard.wire.codes import OUR_LANGUAGE, SERVER_VERSION, Version
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command, answer_to
from steelyard.wire.peers import Peer

__all__ = ["HANDLERS"]

_POOLS = ("sendThreadPool", "pullThreadPool", "litePullThreadPool", "queryThreadPool", "ackThreadPool")
_POOL_CAPACITY = "100000"

_NEVER_ANYTHING_ELSE: Mapping[str, str] = {
    **{f"{pool}QueueSize": "0" for pool in _POOLS},
    **{f"{pool}QueueHeadWaitTimeMills": "0" for pool in _POOLS},
    **{f"{pool}QueueCapacity": _POOL_CAPACITY for pool in _POOLS},
    "EndTransactionQueueSize": "0",
    "EndTransactionThreadPoolQueueCapacity": _POOL_CAPACITY,
    "brokerActive": "true",
    "dispatchBehindBytes": "0",
    "dispatchMaxBuffer": "0",
    "getMessageEntireTimeMax": "0",
    "pageCacheLockTimeMills": "0",
    "putLatency99": "0.00",
    "putLatency999": "0.00",
    "putMessageDistributeTime": "[<=0ms]:0 [0~10ms]:0 [10~50ms]:0 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 "
    "[500ms~1s]:0 [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:0 ",
    "putMessageEntireTimeMax": "0",
    "putMessageFailedTimes": "0",
    "remainTransientStoreBufferNumbs": "2147483647",
    "startAcceptSendRequestTimeStamp": "0",
    "timerCongestNum": "0",
    "timerDequeueTps": "0.0",
    "timerEnqueueTps": "0.0",
    "timerOffsetBehind": "0",
    "timerReadBehind": "0",
}

_MOST_DAMAGES = 100
"""Places that are told; a log may have any number of them."""
_LONGEST_REFUSAL = 500

_UNITS = "KMGTPE"
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def _runtime(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    table = {
        **_NEVER_ANYTHING_ELSE,
        "brokerVersion": str(SERVER_VERSION),
        "brokerVersionDesc": Version(SERVER_VERSION).name,
        "bootTimestamp": str(state.started_ms),
        "runtime": _duration(now_ms - state.started_ms),
        **_passing(state, now_ms),
        **_log(state),
        **_delays(state),
    }
    if request.language == OUR_LANGUAGE:
        table[REPORT_NAME] = encode_body(_report(state)).decode()
    return answer_to(request, body=encode_body(TextTable(table=dict(sorted(table.items())))))


def _passing(state: State, now_ms: int) -> dict[str, str]:
    """Tell how much comes and goes."""
    rates = state.rates
    speeds, (put, got) = rates.speeds(now_ms), rates.mornings()
    stored = rates.stored
    asked = [found + missed for found, missed in zip(speeds.found, speeds.missed, strict=True)]
    return {
        "putTps": _numbers(speeds.stored),
        "getFoundTps": _numbers(speeds.found),
        "getMissTps": _numbers(speeds.missed),
        "getTotalTps": _numbers(asked),
        "getTransferredTps": _numbers(speeds.delivered),
        "getTransferedTps": _numbers(speeds.delivered),
        "msgPutTotalYesterdayMorning": str(put.yesterday),
        "msgPutTotalTodayMorning": str(put.today),
        "msgPutTotalTodayNow": str(put.now),
        "msgGetTotalYesterdayMorning": str(got.yesterday),
        "msgGetTotalTodayMorning": str(got.today),
        "msgGetTotalTodayNow": str(got.now),
        "putMessageTimesTotal": str(stored.messages),
        "putMessageSizeTotal": str(stored.size),
        "putMessageAverageSize": str(stored.size / max(1, stored.messages)),
    }


def _log(state: State) -> dict[str, str]:
    """Tell where the log begins and ends, and how much room it takes and has."""
    store = state.store
    free, size = state.disk.free_bytes(), state.disk.size_bytes()
    # As Apache counts: what others keep on this disk fills it, too. Where there is no disk, the log is all there is.
    used = store.end - store.start if size is None else max(0, size - free)
    ratio = f"{used / max(1, used + free):.4f}"
    earliest_ms = store.lookup.earliest_ms()
    return {
        "commitLogMinOffset": str(store.start),
        "commitLogMaxOffset": str(store.end),
        "earliestMessageTimeStamp": str(-1 if earliest_ms is None else earliest_ms),
        "commitLogDiskRatio": ratio,
        "commitLogDiskRatio_commitlog": ratio,
        "consumeQueueDiskRatio": ratio,
        "commitLogDirCapacity": f"Total : {_size(used + free)}, Free : {_size(free)}.",
        "remainHowManyDataToFlush": _size(max(0, store.end - store.durable)),
    }


def _delays(state: State) -> dict[str, str]:
    """Tell how far each delay level was delivered, of how many messages it had."""
    told = {}
    for queue_id, reached in enumerate(state.schedule.reached):
        end = state.store.bounds(SCHEDULE_TOPIC, queue_id)[1]
        if end:
            told[f"scheduleMessageOffset_{queue_id + 1}"] = f"{reached},{end}"
    return told


def _report(state: State) -> BrokerReport:
    """Tell of disk and flushing in whole numbers, and what was found when the broker was started."""
    store, options, refusal = state.store, state.options, state.trouble.refusal
    return BrokerReport(
        damage=tuple(map(_damage, store.damages[:_MOST_DAMAGES])) or None,
        damages=len(store.damages),
        disk_bytes=state.disk.size_bytes(),
        disk_free_bytes=state.disk.free_bytes(),
        flush=options.flush,
        flush_interval_ms=options.flush_interval_ms,
        flush_last_us=None if state.last_sync_ms is None else round(state.last_sync_ms * 1_000),
        log_bytes=store.end - store.start,
        log_files=store.files,
        recovery=_recovery(state),
        refusal=None if refusal is None else refusal[:_LONGEST_REFUSAL],
        unflushed_bytes=max(0, store.end - store.durable),
    )


def _recovery(state: State) -> RecoveryReport:
    done = state.store.recovery
    return RecoveryReport(
        cut_bytes=done.cut_bytes,
        damages=sum(each.what != CUT_OFF for each in done.damages),
        found=done.found.value,
        read_bytes=done.read_bytes,
        records=done.records,
        took_ms=state.opening_ms,
    )


def _damage(found: Damage) -> DamageReport:
    return DamageReport(
        path=found.path, position=found.position, records=found.records, size=found.size, what=found.what
    )


def _numbers(speeds: Iterable[float]) -> str:
    return " ".join(str(round(speed, 4)) for speed in speeds)


def _size(count: int) -> str:
    """Return a number of bytes as Java prints it.

    >>> _size(940), _size(1_229), _size(270_582_939_648)
    ('940 B', '1.2 KiB', '252.0 GiB')
    """
    if count < 1_024:
        return f"{count} B"
    power = (count.bit_length() - 1) // 10
    return f"{count / (1 << 10 * power):.1f} {_UNITS[power - 1]}iB"


def _duration(passed_ms: int) -> str:
    """Return a time as Java prints it.

    >>> _duration(96_000)
    '[ 0 days, 0 hours, 1 minutes, 36 seconds ]'
    """
    seconds = max(0, passed_ms) // 1_000
    days, hours, minutes = seconds // _DAY, seconds % _DAY // _HOUR, seconds % _HOUR // _MINUTE
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % _MINUTE} seconds ]"


def _replication(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    """Tell that nobody follows: this broker has no replicas."""
    return answer_to(request, body=encode_body(Replication(is_master=True, end=state.store.end)))


HANDLERS: Mapping[int, Handler] = {
    Code.GET_BROKER_RUNTIME_INFO: _runtime,
    Code.GET_BROKER_HA_STATUS: _replication,
}
