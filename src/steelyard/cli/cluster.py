"""`steelyard cluster`: all brokers, throughput, latency, an export as JSON files, name servers and their key-values.

Name servers know nothing of each other, so a change is made at each of those that were given. An exported file is
there whole or not at all.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from click.exceptions import Exit

from steelyard.cli.shared.commands import CommandGroup
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.cli.shared.options import BrokersOption, ClusterOption, TopicOption, YesOption, confirm, parse_pairs
from steelyard.cli.shared.output import Output, columns, fields_of, latency_figures, to_json_value
from steelyard.cli.shared.parameters import argument, option
from steelyard.cli.shared.terminal import ProgressLine, print_note
from steelyard.errors import BrokerNotFound, ConfigurationError, SteelyardError, file_error
from steelyard.model.formatting import format_duration, format_percent, format_release

if TYPE_CHECKING:
    from steelyard.client.admin.brokers import BrokerThroughput
    from steelyard.client.admin.topics import TopicThroughput
    from steelyard.client.sync.admin import Admin

app = CommandGroup("cluster", "Show the whole cluster: brokers, name servers, throughput, latency.")
_name_servers = CommandGroup("name-server", "List name servers, and change their settings.")
_config = CommandGroup("config", "Show the settings of name servers, and change some while they run.")
_kv = CommandGroup("kv", "Key-values that name servers keep by namespace.")
_name_servers.add_command(_config)

_EXPORT_FILES = ("topics", "groups", "settings", "metrics")

_NamespaceArgument = Annotated[str, argument(metavar="NAMESPACE", help="The namespace.")]
_KeyArgument = Annotated[str, argument(metavar="KEY", help="The key.")]


@app.subcommand("show", "steelyard cluster show", "steelyard cluster show --json | jq -r .version")
def _show_cluster(admin: "Admin", out: Output) -> None:
    """Show the brokers of a cluster, masters and replicas."""
    brokers = admin.brokers.throughput()
    out.print_rows(
        columns(
            *("cluster", "broker", "#id", "address", "version", "#in_tps:in/s", "#out_tps:out/s", "#disk_used:disk"),
            "#up",
            in_tps=_rate_text,
            out_tps=_rate_text,
            disk_used=format_percent,
            up=format_duration,
        ),
        map(_broker_row, brokers),
    )
    if out.is_table:
        _print_problems(brokers)


@app.subcommand(
    "stats", "steelyard cluster stats", "steelyard cluster stats --active", "steelyard cluster stats --brokers"
)
def _show_stats(
    admin: "Admin",
    out: Output,
    topic: TopicOption = None,
    active: Annotated[bool, option(help="Only topics and groups with messages today.")] = False,
    brokers: Annotated[bool, option(help="By broker: messages of today and yesterday.")] = False,
) -> None:
    """Show throughput and lag.

    By topic and group: messages a second over the last minute, and in the last 24 hours as far as brokers have counted.
    """
    throughput = admin.brokers.throughput() if brokers or out.is_table else []
    if brokers:
        out.print_rows(
            columns(
                *("broker", "#id", "#in_tps:in/s", "#out_tps:out/s"),
                *("#in_today", "#out_today", "#in_yesterday", "#out_yesterday"),
                in_tps=_rate_text,
                out_tps=_rate_text,
            ),
            map(_broker_row, throughput),
        )
    else:
        _print_topic_rates(out, admin.topics.throughput(topic), only_active=active)
    if out.is_table:
        print_note(_total_text(throughput))
        _print_problems(throughput)


def _print_topic_rates(out: Output, topics: "list[TopicThroughput]", *, only_active: bool) -> None:
    rows: list[dict[str, object]] = []
    for each in topics:
        topic = {"topic": each.topic, "in_tps": each.in_tps, "in_day": each.in_day}
        shown = [group for group in each.groups if not only_active or group.out_day or each.in_day]
        rows += [topic | fields_of(group) for group in shown]
        if not each.groups and (each.in_day or not only_active):
            rows.append(topic | {"group": None, "lag": None, "out_tps": None, "out_day": None})
    out.print_rows(
        columns(
            *("topic", "group", "#lag", "#in_tps:in/s", "#out_tps:out/s", "#in_day:in 24h", "#out_day:out 24h"),
            in_tps=_rate_text,
            out_tps=_rate_text,
        ),
        rows,
    )


def _broker_row(broker: "BrokerThroughput") -> dict[str, object]:
    return fields_of(broker, version=broker.version and format_release(broker.version))


def _total_text(brokers: "list[BrokerThroughput]") -> str:
    """Add up all masters: replicas have the same messages again."""
    masters = [each for each in brokers if each.id == 0]
    return (
        f"all brokers: {_rate_text(sum(each.in_tps or 0 for each in masters))} in/s, "
        f"{_rate_text(sum(each.out_tps or 0 for each in masters))} out/s; "
        f"today {sum(each.in_today or 0 for each in masters)} in, "
        f"{sum(each.out_today or 0 for each in masters)} out; "
        f"yesterday {sum(each.in_yesterday or 0 for each in masters)} in, "
        f"{sum(each.out_yesterday or 0 for each in masters)} out"
    )


def _print_problems(brokers: "list[BrokerThroughput]") -> None:
    for each in brokers:
        if each.problem is not None:
            print_note(f"{each.broker} ({each.id}) does not answer: {each.problem}")


def _rate_text(tps: float) -> str:
    return f"{tps:.1f}"


@app.subcommand("latency", "steelyard cluster latency", "steelyard cluster latency --count 1000 --size 4096")
def _measure_latency(
    admin: "Admin",
    out: Output,
    count: Annotated[int, option(min=1, max=1_000_000, help="Messages to each broker.")] = 100,
    size: Annotated[int, option(min=1, metavar="BYTES", help="Size of each.")] = 128,
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Measure how long each broker takes to store a message.

    Messages go, one after the other, to the topic that every broker has under its own name and no group reads. The
    exit code is 1 if a broker did not store them all.
    """
    names = broker or [each.broker for each in admin.brokers.instances(cluster=cluster) if each.is_master]
    rows = [_measure_broker(admin, name, count, size) for name in dict.fromkeys(names)]
    has_failed = any(row["failed"] for row in rows)
    latencies = ("min_ms", "avg_ms", "p99_ms", "max_ms")
    out.print_rows(
        columns(
            *("broker", "#sent", "#failed", *(f"#{each}" for each in latencies), *(["problem"] if has_failed else [])),
            **dict.fromkeys(latencies, "{:.2f}".format),
        ),
        rows,
    )
    if not rows or has_failed:
        raise Exit(ExitCode.FAILED)


def _measure_broker(admin: "Admin", broker: str, count: int, size: int) -> dict[str, object]:
    took_ms: list[float] = []
    failed, problem = 0, None
    progress = ProgressLine()
    for number in range(-1, count):
        try:
            one_ms = admin.brokers.probe(broker, size=size)
            if number >= 0:  # the first one opens the connection and does not count
                took_ms.append(one_ms)
        except (BrokerNotFound, ConfigurationError):
            raise
        except SteelyardError as error:
            failed, problem = failed + 1, error.what
            if not took_ms:
                break
        progress.update(lambda: f"{broker}: {len(took_ms)} of {count}")
    progress.clear()
    sent = {"broker": broker, "sent": len(took_ms), "failed": failed}
    return {**sent, **latency_figures(took_ms), "problem": problem}


@app.subcommand("export", "steelyard cluster export --to backup")
def _export_cluster(
    admin: "Admin",
    out: Output,
    to: Annotated[Path, option(metavar="DIR", help="Directory to write to.")],
    yes: YesOption = False,
) -> None:
    """Write topics, groups, settings and metrics as JSON files.

    `steelyard topic apply` and mqadmin's updateTopicList read topics.json again, and `steelyard group apply` and
    updateSubGroupList groups.json. Secrets among the settings are left out.
    """
    paths = {part: to / f"{part}.json" for part in _EXPORT_FILES}
    if existing := sorted(path.name for path in paths.values() if path.exists()):
        confirm(f"{to} already has {', '.join(existing)}, which would be replaced", yes)
    found = admin.export()
    rows = []
    for part, path in paths.items():
        value = getattr(found, part)
        _write_atomically(path, msgspec.json.format(msgspec.json.encode(to_json_value(value)), indent=2) + b"\n")
        entries = len(value) if isinstance(value, list) else None
        rows.append({"file": str(path), "entries": entries, "bytes": path.stat().st_size})
    out.print_rows(columns("file", "#entries", "#bytes"), rows)


def _write_atomically(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as error:
        raise file_error(f"{path} cannot be written", error, "give another --to") from None


@_name_servers.subcommand("ls", "steelyard cluster name-server ls")
def _list_name_servers(admin: "Admin", out: Output) -> None:
    """List name servers, and whether they answer. The exit code is 5 if none does."""
    found = admin.name_servers.list()
    out.print_rows(columns("address", "#brokers", "problem"), map(fields_of, found))
    if all(each.problem is not None for each in found):
        raise Exit(ExitCode.UNREACHABLE)


@_config.subcommand(
    "show", "steelyard cluster name-server config show", "steelyard cluster name-server config show orderMessageEnable"
)
def _show_name_server_config(
    admin: "Admin",
    out: Output,
    name: Annotated[list[str] | None, argument(metavar="[NAME]...", help="Only these settings.")] = None,
) -> None:
    """Show the settings of name servers, under their own names."""
    _print_name_server_config(out, admin.name_servers.config(name or ()))


@_config.subcommand("set", "steelyard cluster name-server config set orderMessageEnable=true")
def _set_name_server_config(
    admin: "Admin",
    out: Output,
    setting: Annotated[list[str], argument(metavar="NAME=VALUE...", help="Settings and their new values.")],
) -> None:
    """Change settings of all name servers while they run."""
    wanted = parse_pairs(setting, "setting")
    admin.name_servers.set_config(wanted)
    _print_name_server_config(out, admin.name_servers.config(wanted))


def _print_name_server_config(out: Output, found: Mapping[str, Mapping[str, str]]) -> None:
    out.print_rows(
        columns("address", "name", "value"),
        (
            {"address": address, "name": name, "value": value}
            for address, settings in found.items()
            for name, value in settings.items()
        ),
    )


@_kv.subcommand("ls", "steelyard cluster kv ls ORDER_TOPIC_CONFIG")
def _list_kv(admin: "Admin", out: Output, space: _NamespaceArgument) -> None:
    """List the key-values of a namespace."""
    found = admin.name_servers.key_values(space)
    out.print_rows(columns("key", "value"), ({"key": key, "value": value} for key, value in found.items()))


@_kv.subcommand("get", "steelyard cluster kv get ORDER_TOPIC_CONFIG orders")
def _get_kv(admin: "Admin", out: Output, space: _NamespaceArgument, key: _KeyArgument) -> None:
    """Print the value of a key."""
    value = admin.name_servers.key_value(space, key)
    out.print_result(value, namespace=space, key=key, value=value)


@_kv.subcommand("set", "steelyard cluster kv set deploy colour green")
def _set_kv(
    admin: "Admin",
    out: Output,
    space: _NamespaceArgument,
    key: _KeyArgument,
    value: Annotated[str, argument(metavar="VALUE", help="Its value.")],
) -> None:
    """Set the value of a key."""
    admin.name_servers.set_key_value(space, key, value)
    out.print_result(f"{key} in {space} is {value}", namespace=space, key=key, value=value)


@_kv.subcommand("delete", "steelyard cluster kv delete deploy colour --yes")
def _delete_kv(
    admin: "Admin", out: Output, space: _NamespaceArgument, key: _KeyArgument, yes: YesOption = False
) -> None:
    """Delete a key and its value."""
    value = admin.name_servers.key_value(space, key)
    confirm(f"{key!r} in {space!r} is {value!r}, and would be deleted", yes)
    admin.name_servers.delete_key_value(space, key)
    out.print_result(f"{key} in {space} is deleted", namespace=space, key=key)


app.add_command(_name_servers)
app.add_command(_kv)
