"""`steelyard broker`: list and describe brokers, change their settings, clean them, stop and allow writes.

Writes are stopped at name servers, which know nothing of each other, so each of them is asked. That lasts until the
broker restarts or changes a topic; the broker's own setting ``brokerPermission=4`` lasts longer.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

from click.exceptions import Exit

from steelyard.cli.shared.commands import CommandGroup
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.cli.shared.options import (
    BrokerArgument,
    ClusterOption,
    DryRunOption,
    GroupOption,
    TopicOption,
    YesOption,
    confirm,
    parse_pairs,
)
from steelyard.cli.shared.output import Output, TableColumn, columns, fields_of
from steelyard.cli.shared.parameters import argument, option
from steelyard.cli.shared.terminal import print_note
from steelyard.errors import ConfigurationError
from steelyard.model.formatting import format_bytes, format_duration, format_percent, format_release, pluralize
from steelyard.model.reserved_names import is_system_group

if TYPE_CHECKING:
    from steelyard.client.admin.brokers import (
        BrokerDisk,
        BrokerReports,
        BrokerRuntime,
        BrokerStatus,
        FlushStatus,
        GroupLag,
        NameServerUpdate,
        RateAverages,
    )
    from steelyard.client.sync.admin import Admin

app = CommandGroup("broker", "List and describe brokers, change their settings, stop and allow writes.")
_config = CommandGroup("config", "Show the settings of a broker, and change some while it runs.")
app.add_command(_config)

_HIDDEN = "(hidden)"
_RETENTION_SETTING = "fileReservedTime"
_MAX_NAMED = 5

_BrokerIdOption = Annotated[
    int | None, option("--id", min=0, help="Which instance: 0 is the master, others are replicas.", show_default="0")
]


@app.subcommand("ls", "steelyard broker ls", "steelyard broker ls --output json")
def _list_brokers(admin: "Admin", out: Output, cluster: ClusterOption = None) -> None:
    """List brokers and their state."""
    if cluster is not None:
        admin.brokers.instances(cluster=cluster)  # an unknown cluster is an error that lists the known ones
    brokers = [each for each in admin.brokers.list() if cluster in (None, each.cluster)]
    shown = columns(
        *("broker", "cluster", "address", "version", "#up", "#in_tps:in/s", "#out_tps:out/s", "#disk_used:disk"),
        up=format_duration,
        in_tps="{:.1f}".format,
        out_tps="{:.1f}".format,
        disk_used=format_percent,
    )
    if not out.is_table or any(len(each.addresses) > 1 for each in brokers):
        shown += columns("#replicas", replicas=lambda ids: str(len(ids)))
    out.print_rows(shown, map(_broker_row, brokers))
    for each in brokers:
        for problem in (each.problem, *_broker_problems(each.reports)):
            if problem is not None:
                print_note(f"{each.name}: {problem}")


def _broker_problems(reports: "BrokerReports | None") -> tuple[str | None, ...]:
    if reports is None:
        return ()
    return (None if reports.refusal is None else f"it rejects messages: {reports.refusal}", reports.loss)


def _broker_row(broker: "BrokerStatus") -> dict[str, object]:
    return {
        "broker": broker.name,
        "cluster": broker.cluster,
        "address": broker.addresses.get(0),
        "replicas": {key: address for key, address in broker.addresses.items() if key},
        "version": broker.version and format_release(broker.version),
        **fields_of(broker, "started_at", "up"),
        "in_tps": broker.put_tps,
        "out_tps": broker.get_tps,
        **fields_of(broker, "disk_used", "problem"),
        "refusal": broker.reports and broker.reports.refusal,
        "damages": broker.reports and broker.reports.damages,
    }


@app.subcommand(
    "show",
    "steelyard broker show broker-a",
    "steelyard broker show broker-a --id 1",
    "steelyard broker show broker-a --all --output csv",
)
def _show_broker(
    admin: "Admin",
    out: Output,
    broker: BrokerArgument,
    broker_id: _BrokerIdOption = None,
    all_of_it: Annotated[bool, option("--all", help="All figures, under the broker's own names.")] = False,
) -> None:
    """Show the state of a broker."""
    state = admin.brokers.describe(broker, broker_id=broker_id)
    if all_of_it:
        out.print_rows(columns("name", "value"), ({"name": key, "value": text} for key, text in state.reported.items()))
    else:
        out.print_object(_broker_texts(state) if out.is_table else _broker_values(state))
        for lost in state.reports.lost if out.is_table else ():
            print_note(str(lost))


def _broker_texts(state: "BrokerRuntime") -> dict[str, object]:
    """Return the state for people; None stands for what this broker does not report."""

    def shown(value: float | None, show: Callable[[float], str]) -> str | None:
        return None if value is None else show(value)

    log_bytes = None if state.log_start is None or state.log_end is None else state.log_end - state.log_start
    return {
        "broker": str(state.server),
        "cluster": state.server.cluster,
        "address": state.server.address,
        "version": state.version and format_release(state.version),
        "up": state.up and format_duration(state.up),
        "started": state.started_at,
        "stored": _rate_text(state.put, state.stored_today),
        "delivered": _rate_text(state.delivered, state.delivered_today),
        "log": shown(log_bytes, lambda count: f"{format_bytes(count)}, from {state.log_start} to {state.log_end}"),
        "oldest message": state.oldest_at,
        "disk": _disk_text(state.reports.disk),
        "disk of the log": shown(state.log_disk_used, lambda part: f"{format_percent(part)} full"),
        "disk of the indexes": shown(state.index_disk_used, lambda part: f"{format_percent(part)} full"),
        "indexes behind": shown(state.index_behind_bytes, format_bytes),
        "page cache": shown(state.page_cache_ms, lambda ms: f"held for {ms:.0f} ms by the last writer"),
        "sends waiting": _waiting_text(state.sends_waiting, state.send_wait_ms),
        "pulls waiting": _waiting_text(state.pulls_waiting, state.pull_wait_ms),
        "flushing": _flushing_text(state.reports.flushing),
        "last start": state.reports.recovery and str(state.reports.recovery),
        "damaged places": state.reports.damages,
        "takes messages": _takes_messages_text(state.reports),
    }


def _takes_messages_text(reports: "BrokerReports") -> str | None:
    if reports.refusal is not None:
        return f"no: {reports.refusal}"
    return None if reports.recovery is None else "yes"


def _disk_text(disk: "BrokerDisk | None") -> str | None:
    if disk is None or disk.free_bytes is None:
        return None
    if disk.size_bytes is None:
        free = "unlimited"
    else:
        free = f"{format_bytes(disk.size_bytes)}, {format_bytes(disk.free_bytes)} free"
    return free if disk.log_files is None else f"{free}, {pluralize(disk.log_files, 'log file')}"


def _flushing_text(flushing: "FlushStatus | None") -> str | None:
    if flushing is None:
        return None
    how = {"sync": "before each response", "async": f"every {flushing.interval_ms} ms"}.get(flushing.mode or "")
    unflushed = None if flushing.unflushed_bytes is None else f"{format_bytes(flushing.unflushed_bytes)} not flushed"
    took = None if flushing.last_ms is None else f"the last took {flushing.last_ms:.1f} ms"
    return ", ".join(each for each in (how, unflushed, took) if each)


def _rate_text(rates: "RateAverages | None", today: int | None) -> str | None:
    if rates is None:
        return None
    now = f"{rates.ten_seconds:.1f}/s"
    if rates.minute is not None and rates.ten_minutes is not None:
        now += f" (last minute {rates.minute:.1f}/s, ten minutes {rates.ten_minutes:.1f}/s)"
    return now if today is None else f"{now}, {today} today"


def _waiting_text(count: int | None, first_ms: int | None) -> str | None:
    if count is None:
        return None
    return str(count) if not count or first_ms is None else f"{count}, the first for {first_ms} ms"


def _broker_values(state: "BrokerRuntime") -> dict[str, object]:
    """Return the state for programs."""
    reports = state.reports
    disk, flushing = reports.disk, reports.flushing
    return {
        "broker": state.server.broker,
        "cluster": state.server.cluster,
        "id": state.server.broker_id,
        "address": state.server.address,
        "version": state.version and format_release(state.version),
        **fields_of(state, "started_at", "up"),
        "in_tps": state.put,
        "out_tps": state.delivered,
        "in_today": state.stored_today,
        "out_today": state.delivered_today,
        **fields_of(state, "log_start", "log_end", "oldest_at", "log_disk_used", "index_disk_used"),
        **fields_of(state, "index_behind_bytes", "page_cache_ms"),
        **fields_of(state, "sends_waiting", "send_wait_ms", "pulls_waiting", "pull_wait_ms"),
        "disk_bytes": disk and disk.size_bytes,
        "disk_free_bytes": disk and disk.free_bytes,
        "log_files": disk and disk.log_files,
        "flush": flushing and flushing.mode,
        "flush_interval_ms": flushing and flushing.interval_ms,
        "unflushed_bytes": flushing and flushing.unflushed_bytes,
        "last_flush_ms": flushing and flushing.last_ms,
        **fields_of(reports, "recovery", "damages", "lost", "refusal"),
    }


@app.subcommand(
    "lag",
    "steelyard broker lag broker-a",
    "steelyard broker lag broker-a --queues --over 1000",
    "steelyard broker lag broker-a --group billing --output jsonl",
)
def _show_broker_lag(
    admin: "Admin",
    out: Output,
    broker: BrokerArgument,
    queues: Annotated[bool, option(help="One row for each queue.")] = False,
    over: Annotated[int | None, option(min=0, help="Only where the lag is greater than this.")] = None,
    ordered: Annotated[bool, option(help="Only ordered topics.")] = False,
    system: Annotated[bool, option(help="Also system groups.")] = False,
    group: GroupOption = None,
    topic: TopicOption = None,
) -> None:
    """Show the lag of all groups on a broker."""
    found = [
        each
        for each in admin.brokers.lag(broker, ordered_only=ordered)
        if group in (None, each.group)
        and topic in (None, each.queue.topic)
        and (system or not is_system_group(each.group))
    ]
    by_topic: dict[tuple[str, str], list[GroupLag]] = {}
    for each in found:
        by_topic.setdefault((each.group, each.queue.topic), []).append(each)
    rows = (
        [_lag_row([each], queue_id=each.queue.queue_id) for each in found]
        if queues
        else [_lag_row(several, queues=len(several)) for several in by_topic.values()]
    )
    out.print_rows(
        columns(
            *("group", "topic", *(["#queue_id:queue"] if queues else []), "#end", "#committed", "#lag", "#in_flight"),
            "consumed_at:last consumed",
            consumed_at=_format_age,
        ),
        [row for row in rows if over is None or int(str(row["lag"])) > over],
    )


def _format_age(then: datetime) -> str:
    return f"{format_duration(max(timedelta(), datetime.now(UTC) - then))} ago"


def _lag_row(several: "list[GroupLag]", **which: int) -> dict[str, object]:
    """Add up the queues of a topic, or take one of them."""
    pulled = [max(0, each.pulled - each.committed) for each in several if each.pulled is not None]
    return {
        "group": several[0].group,
        "topic": several[0].queue.topic,
        **which,
        "end": sum(each.end for each in several),
        "committed": sum(each.committed for each in several),
        "lag": sum(each.lag for each in several),
        "in_flight": sum(pulled) if pulled or "queues" in which else None,
        "consumed_at": max((each.consumed_at for each in several if each.consumed_at is not None), default=None),
    }


@_config.subcommand(
    "show",
    "steelyard broker config show broker-a",
    "steelyard broker config show broker-a 'flush*'",
    "steelyard broker config show broker-a --differs",
)
def _show_broker_config(
    admin: "Admin",
    out: Output,
    broker: BrokerArgument,
    names: Annotated[list[str] | None, argument(metavar="[NAME]...", help="Only these; * matches anything.")] = None,
    broker_id: _BrokerIdOption = None,
    differs: Annotated[bool, option(help="Only those that differ on another broker of the cluster.")] = False,
    reveal: Annotated[bool, option(help="Show passwords and secrets too.")] = False,
) -> None:
    """Show the settings of a broker, under its own names."""
    from steelyard.client.admin.brokers import is_secret_setting, setting_not_found

    settings = admin.brokers.config(broker, broker_id=broker_id)
    others = {}
    if differs:
        cluster = admin.brokers.instances(broker)[0].cluster
        masters = [each.broker for each in admin.brokers.instances(cluster=cluster) if each.is_master]
        others = {name: admin.brokers.config(name) for name in masters if name != broker}
    for name in names or ():
        if "*" not in name and name not in settings:
            raise setting_not_found(name, settings, broker)

    def shown(name: str, value: str | None) -> str | None:
        return _HIDDEN if value and is_secret_setting(name) and not reveal else value

    rows = [
        {"name": name, "value": shown(name, value)}
        | {key: shown(name, there.get(name)) for key, there in others.items()}
        for name, value in sorted(settings.items())
        if (not names or any(fnmatchcase(name, each) for each in names))
        and (not differs or any(there.get(name) != value for there in others.values()))
    ]
    value_column = TableColumn("value", broker if differs else "value")
    out.print_rows([TableColumn("name"), value_column, *map(TableColumn, others)], rows)


@_config.subcommand(
    "set",
    "steelyard broker config set broker-a fileReservedTime=48 --dry-run",
    "steelyard broker config set broker-a flushDiskType=SYNC_FLUSH --everywhere --yes",
)
def _set_broker_config(
    admin: "Admin",
    out: Output,
    broker: BrokerArgument,
    given: Annotated[list[str], argument(metavar="NAME=VALUE...", help="Settings and their new values.")],
    broker_id: _BrokerIdOption = None,
    everywhere: Annotated[bool, option(help="On all brokers of its cluster, replicas too.")] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Change settings of a broker while it runs."""
    wanted = parse_pairs(given, "setting")
    servers = admin.brokers.instances(broker)
    if everywhere:
        servers = admin.brokers.instances(cluster=servers[0].cluster)
    else:
        servers = [each for each in servers if each.broker_id == (broker_id or 0)] or servers[:1]
    changes = {each: admin.brokers.plan_config(each.broker, wanted, broker_id=each.broker_id) for each in servers}
    if not dry_run:
        if everywhere:
            confirm(f"{', '.join(wanted)} would be set on {', '.join(map(str, servers))}", yes)
        changes = {each: admin.brokers.set_config(each.broker, wanted, broker_id=each.broker_id) for each in servers}
    rows = [
        {"broker": str(server), **fields_of(change, id=server.broker_id, address=server.address)}
        for server, several in changes.items()
        for change in several
    ]
    out.print_rows(columns("broker", "name", "before", "after"), rows)
    if dry_run:
        print_note("nothing was changed")
        return
    for row in rows:
        if row["after"] != (value := wanted[str(row["name"])]):
            print_note(f"{row['name']}={value} was set on {row['broker']}, which reports {row['after']}")


@app.subcommand(
    "clean",
    "steelyard broker clean broker-a --log",
    "steelyard broker clean broker-a --topics --indexes --yes",
)
def _clean_broker(
    admin: "Admin",
    out: Output,
    broker: BrokerArgument,
    log: Annotated[bool, option(help="Log files older than its retention time.")] = False,
    indexes: Annotated[bool, option(help="Indexes of messages that left the log.")] = False,
    topics: Annotated[bool, option(help="Indexes of topics that were deleted.")] = False,
    yes: YesOption = False,
) -> None:
    """Have a broker delete now what retention would delete later."""
    from steelyard.client.admin.brokers import CleanTarget

    targets = {
        CleanTarget.LOG: (log, "log files whose messages are too old"),
        CleanTarget.INDEXES: (indexes, "indexes of messages that left the log"),
        CleanTarget.TOPICS: (topics, "indexes of deleted topics"),
    }
    chosen = {target: text for target, (is_wanted, text) in targets.items() if is_wanted}
    if not chosen:
        raise ConfigurationError(f"nothing of {broker} is to be cleaned", next_step="give --log, --indexes or --topics")
    kept = admin.brokers.config(broker).get(_RETENTION_SETTING, "") if log else ""
    hours = f" (it keeps them for {kept} hours)" if kept.isdigit() else ""
    confirm(f"{broker} would delete {', and '.join(chosen.values())}{hours}, at once", yes)
    before = admin.brokers.describe(broker)
    for target in chosen:
        admin.brokers.clean(broker, target)
    freed = max(0, (admin.brokers.describe(broker).log_start or 0) - (before.log_start or 0))
    out.print_result(
        f"{broker} deletes {', and '.join(chosen.values())}; its log is {format_bytes(freed)} shorter so far",
        broker=broker,
        cleaned=[target.name.lower() for target in chosen],
        freed_bytes=freed,
    )


@app.subcommand("stop-writes", "steelyard broker stop-writes broker-a", "steelyard broker stop-writes broker-a --yes")
def _stop_writes(admin: "Admin", out: Output, broker: BrokerArgument, yes: YesOption = False) -> None:
    """Have clients stop writing to a broker, while they go on reading from it."""
    others = [each.name for each in admin.brokers.list() if each.name != broker and each.problem is None]
    admin.brokers.instances(broker)  # an error if there is no such broker
    rest = f"write only to {', '.join(others)}" if others else "no other broker is there to write to"
    confirm(f"clients would stop writing to {broker}, and {rest}", yes)
    _print_name_server_updates(out, admin.brokers.stop_writes(broker))
    print_note(f"clients learn of it within 30 s; it lasts until {broker} restarts or changes a topic")


@app.subcommand("allow-writes", "steelyard broker allow-writes broker-a")
def _allow_writes(admin: "Admin", out: Output, broker: BrokerArgument, yes: YesOption = False) -> None:
    """Have clients write to a broker again.

    Name servers then allow it for all topics of the broker, even for those that are read-only by their own settings.
    """
    if closed := admin.brokers.read_only_topics(broker):
        named = ", ".join(closed[:_MAX_NAMED]) + (" …" if len(closed) > _MAX_NAMED else "")
        confirm(
            f"clients could then write on {broker} to topics that are read-only by their own settings: {named}", yes
        )
    _print_name_server_updates(out, admin.brokers.allow_writes(broker))


def _print_name_server_updates(out: Output, updates: "list[NameServerUpdate]") -> None:
    out.print_rows(
        columns("name_server", "#topics:topics changed"),
        ({"name_server": each.address, **fields_of(each, "topics", "problem")} for each in updates),
    )
    problems = [each for each in updates if each.problem is not None]
    for each in problems:
        print_note(f"{each.address} was not updated: {each.problem}")
    if problems:
        raise Exit(ExitCode.FAILED)
