"""`steelyard topic`: list and describe topics, create, change and delete them.

Creating a topic that exists with the same queues changes nothing and succeeds. A change that makes messages
unreadable, and a deletion, need a confirmation.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from steelyard.cli.shared.commands import CommandGroup
from steelyard.cli.shared.options import (
    BrokersOption,
    ClusterOption,
    DryRunOption,
    TopicArgument,
    TopicPermission,
    YesOption,
    confirm,
    parse_pairs,
)
from steelyard.cli.shared.output import Output, columns, fields_of
from steelyard.cli.shared.parameters import argument, option
from steelyard.cli.shared.terminal import print_note
from steelyard.errors import ConfigurationError, RequestNotSupported, SteelyardError
from steelyard.model.formatting import format_time, pluralize

if TYPE_CHECKING:
    from steelyard.client.admin.topic_plan import TopicChangePlan
    from steelyard.client.admin.topics import TopicDescription
    from steelyard.client.sync.admin import Admin

app = CommandGroup("topic", "List and describe topics, create, change and delete them.")

_NewTopicArgument = Annotated[str, argument(metavar="TOPIC", help="The topic's name.")]
_AttributesOption = Annotated[
    list[str] | None,
    option(
        "--attribute",
        metavar="NAME=VALUE",
        help="An attribute that brokers of release 5 keep, such as message.type=FIFO; can be repeated.",
    ),
]


@app.subcommand(
    "ls", "steelyard topic ls", "steelyard topic ls 'order*' --groups", "steelyard topic ls -o csv > topics.csv"
)
def _list_topics(
    admin: "Admin",
    out: Output,
    pattern: Annotated[str | None, argument(metavar="[PATTERN]", help="Only names like this: 'order*'.")] = None,
    system: Annotated[bool, option(help="Also system topics, and retry topics of groups.")] = False,
    cluster: ClusterOption = None,
    groups: Annotated[bool, option(help="Also the groups that read each; slower.")] = False,
) -> None:
    """List topics."""
    found = [
        each
        for each in admin.topics.list(system=system)
        if (pattern is None or fnmatchcase(each.name, pattern)) and (cluster is None or cluster in each.clusters)
    ]
    out.print_rows(
        columns("topic", "#queues", "brokers", "may:permission", "kind", *(["groups"] if groups else [])),
        [
            {
                "topic": each.name,
                **fields_of(each, "queues", "brokers", may=TopicPermission.from_permission(each.permission)),
                **fields_of(each, "kind", "clusters"),
                **({"groups": admin.topics.groups(each.name)} if groups else {}),
            }
            for each in found
        ],
        if_empty="no topic exists yet; create one: steelyard topic create NAME"
        if pattern is None
        else "no topic matches",
    )


@app.subcommand("show", "steelyard topic show orders", "steelyard topic show orders --output json | jq '.[].messages'")
def _show_topic(admin: "Admin", out: Output, topic: TopicArgument) -> None:
    """Show the queues of a topic, and how evenly they are filled.

    For each queue: its first offset, the next offset to be written, and when the last message was stored.
    """
    from steelyard.client.describe import describe_skew

    view = admin.topics.describe(topic)
    out.print_rows(
        columns(
            "broker", "#queue_id:queue", "#first", "#next", "#messages", "stored_at:last stored", stored_at=format_time
        ),
        (
            fields_of(each, "queue", topic=topic, first=each.start, next=each.end)
            | fields_of(each, "messages", "stored_at")
            for each in view.queues
        ),
    )
    if out.is_table:
        groups = ", ".join(admin.topics.groups(topic)) or "no group"
        permissions = ", ".join(sorted({TopicPermission.from_permission(each.permission) for each in view.counts}))
        print_note(
            f"{topic}: {pluralize(view.messages, 'message')} in {pluralize(len(view.queues), 'queue')} on "
            f"{', '.join(view.brokers)}; "
            f"permission {permissions}; read by {groups}"
        )
        if view.order:
            print_note(f"its list of queues is fixed: {view.order}")
        print_note(describe_skew(view.queues))


@app.subcommand("create", "steelyard topic create orders --queues 16", "steelyard topic create audit --broker broker-0")
def _create_topic(
    admin: "Admin",
    out: Output,
    topic: _NewTopicArgument,
    queues: Annotated[int, option(min=1, help="Queues on each broker.")] = 8,
    may: Annotated[TopicPermission, option(help="What clients may do with it.")] = TopicPermission.READ_WRITE,
    order: Annotated[
        bool, option(help="Fix its list of queues, so that a key keeps its queue when brokers leave.")
    ] = False,
    attribute: _AttributesOption = None,
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Create a topic, unless it exists as wanted."""
    made = admin.topics.create(
        topic,
        queues,
        read=may in (TopicPermission.READ_WRITE, TopicPermission.READ),
        write=may in (TopicPermission.READ_WRITE, TopicPermission.WRITE),
        order=order,
        attributes=parse_pairs(attribute, "attribute", empty=False),
        brokers=broker,
        cluster=cluster,
    )
    _print_topic(out, made)


@app.subcommand("add-queues", "steelyard topic add-queues orders --to 32")
def _add_queues(
    admin: "Admin",
    out: Output,
    topic: TopicArgument,
    to: Annotated[int, option(min=1, help="Queues it will have on each broker.")],
) -> None:
    """Add queues to a topic, on each broker that has it."""
    _print_topic(out, admin.topics.add_queues(topic, to))


@app.subcommand(
    "set",
    "steelyard topic set orders --may read",
    "steelyard topic set orders --write-queues 4 --dry-run",
    "steelyard topic set orders --attribute message.type=FIFO",
)
def _set_topic(
    admin: "Admin",
    out: Output,
    topic: TopicArgument,
    may: Annotated[TopicPermission | None, option(help="What clients may do with it.")] = None,
    read_queues: Annotated[int | None, option(min=1, help="Queues of a broker that can be read.")] = None,
    write_queues: Annotated[int | None, option(min=1, help="Queues of a broker that can be written to.")] = None,
    order: Annotated[bool | None, option("--order/--no-order", help="Fix its list of queues, or free it.")] = None,
    attribute: _AttributesOption = None,
    no_attribute: Annotated[list[str] | None, option(metavar="NAME", help="Remove an attribute.")] = None,
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Change settings of a topic on the brokers that have it; those not given stay.

    To remove queues, first write to fewer, wait until all groups have consumed the others, and then read from fewer.
    """
    from steelyard.client.admin.topic_plan import TopicSpec

    wanted = TopicSpec(
        name=topic,
        read_queues=read_queues,
        write_queues=write_queues,
        permission=None if may is None else may.permission,
        order=order,
        attributes={**parse_pairs(attribute, "attribute", empty=False), **dict.fromkeys(no_attribute or ())},
    )
    if wanted == TopicSpec(name=topic):
        raise ConfigurationError(
            f"no change of topic {topic!r} is given",
            next_step="give --may, --read-queues, --write-queues, --order or --attribute",
        )
    plan = admin.topics.plan([wanted], brokers=broker, cluster=cluster, only_existing=True)
    _apply_plan(admin, out, plan, dry_run=dry_run, yes=yes)


@app.subcommand(
    "apply",
    "steelyard topic apply topics.json --dry-run",
    """echo '{"orders": 16, "audit": {"queues": 4, "may": "read"}}' | steelyard topic apply -""",
)
def _apply_topics(
    admin: "Admin",
    out: Output,
    file: Annotated[
        Path,
        argument(
            metavar="FILE",
            help="JSON: an object of topics and their queues, or a list as mqadmin's updateTopicList takes it; - for "
            "stdin.",
        ),
    ],
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Create and change topics as a file says.

    Topics that the file does not name stay as they are, and so do settings that it leaves out.
    """
    from steelyard.cli.shared.input_files import read_topics

    wanted = read_topics(file)
    plan = admin.topics.plan(wanted, brokers=broker, cluster=cluster)
    _apply_plan(admin, out, plan, dry_run=dry_run, yes=yes)


@app.subcommand("delete", "steelyard topic delete orders", "steelyard topic delete orders --yes")
def _delete_topic(
    admin: "Admin", out: Output, topic: TopicArgument, cluster: ClusterOption = None, yes: YesOption = False
) -> None:
    """Delete a topic and all of its messages."""
    view = admin.topics.describe(topic)
    groups = admin.topics.groups(topic)
    readers = f"; it is read by {', '.join(groups)}" if groups else ""
    confirm(f"topic {topic!r} has {pluralize(view.messages, 'message')}, which would be deleted with it{readers}", yes)
    admin.topics.delete(topic, cluster=cluster)
    count = pluralize(view.messages, "message")
    out.print_result(f"topic {topic} is deleted, with {count}", topic=topic, messages=view.messages)


@app.subcommand("route", "steelyard topic route orders")
def _show_route(admin: "Admin", out: Output, topic: TopicArgument) -> None:
    """Show the route of a topic, as name servers give it to clients."""
    route = admin.topics.route(topic)
    places = {place.name: place for place in route.brokers}
    out.print_rows(
        columns(
            "cluster",
            "broker",
            "addresses",
            "#read_queues",
            "#write_queues",
            "may:permission",
            addresses=_addresses_text,
        ),
        (
            {
                "topic": topic,
                "cluster": places[each.broker].cluster if each.broker in places else None,
                "broker": each.broker,
                "addresses": places[each.broker].addresses if each.broker in places else {},
                "read_queues": each.read,
                "write_queues": each.write,
                "may": TopicPermission.from_permission(each.permission),
                "order": route.order,
            }
            for each in sorted(route.counts, key=lambda each: each.broker)
        ),
    )


def _addresses_text(addresses: Mapping[int, str]) -> str:
    return ", ".join(f"{address} ({number})" if number else address for number, address in addresses.items())


@app.subcommand("settings", "steelyard topic settings orders")
def _show_settings(admin: "Admin", out: Output, topic: TopicArgument) -> None:
    """Show the settings of a topic on each broker."""
    configs = admin.topics.configs(topic)
    out.print_rows(
        columns("broker", "#read_queues", "#write_queues", "may:permission", "order:ordered", "attributes"),
        (
            {
                "topic": topic,
                "broker": broker,
                **fields_of(each, "read_queues", "write_queues", may=TopicPermission.from_permission(each.permission)),
                **fields_of(each, "order", "attributes", "filter_type", "sys_flag"),
            }
            for broker, each in configs.items()
        ),
    )
    first, *others = configs.values()
    if out.is_table and any(each != first for each in others):
        print_note("brokers have different settings for it")


@app.subcommand(
    "order",
    "steelyard topic order orders",
    "steelyard topic order orders --fix broker-0:4 --fix broker-1:4",
    "steelyard topic order orders --clear",
)
def _order_topic(
    admin: "Admin",
    out: Output,
    topic: TopicArgument,
    fix: Annotated[
        list[str] | None,
        option(
            metavar="BROKER:QUEUES",
            help="Fix the list to this number of queues of a broker; can be repeated. 'all' for those it has now.",
        ),
    ] = None,
    clear: Annotated[bool, option(help="Remove the list.")] = False,
) -> None:
    """Show, fix or clear the list of queues of an ordered topic.

    A fixed list does not change when brokers come and go, so that a key keeps its queue.
    """
    if fix and clear:
        raise ConfigurationError("--fix and --clear exclude each other", next_step="give one of them")
    if clear:
        admin.topics.clear_order(topic)
        out.print_result(f"the list of queues of topic {topic} is no longer fixed", topic=topic, order=None)
        return
    if fix:
        admin.topics.set_order(topic, None if fix == ["all"] else _parse_queue_counts(fix))
    order = admin.topics.order(topic)
    rows = ({"topic": topic, "broker": broker, "queues": count} for broker, count in (order or {}).items())
    out.print_rows(columns("broker", "#queues"), rows)
    if order is None:
        print_note(f"the list of queues of topic {topic} is not fixed")
    elif admin.topics.route(topic).order is None:
        print_note(
            "the name servers keep this list and do not send it to clients; let them: "
            "steelyard cluster name-server config set orderMessageEnable=true"
        )


def _print_topic(out: Output, topic: "TopicDescription") -> None:
    out.print_result(
        f"topic {topic.name} has {pluralize(len(topic.queues), 'queue')} on {', '.join(topic.brokers)}",
        topic=topic.name,
        queues=len(topic.queues),
        brokers=topic.brokers,
    )


def _apply_plan(admin: "Admin", out: Output, plan: "TopicChangePlan", *, dry_run: bool, yes: bool) -> None:
    """Show a plan, and carry it out unless this is a dry run."""
    if not dry_run:
        if hidden := _unreadable_queues_text(admin, plan):
            confirm(hidden, yes)
        try:
            admin.topics.apply(plan)
        except SteelyardError as error:
            # An unsupported request is detected before anything is changed.
            if len(plan.todo) > 1 and not isinstance(error, RequestNotSupported):
                print_note("some changes may have been made already; see what is left with --dry-run")
            raise
    out.print_rows(
        columns("topic", "broker", "action", "details"),
        (
            {"topic": each.topic, "broker": each.broker, "action": each.what, "details": each.details or None}
            for each in plan.changes
        ),
    )
    if dry_run:
        print_note("nothing was changed" if plan.todo else "there is nothing to change")


def _unreadable_queues_text(admin: "Admin", plan: "TopicChangePlan") -> str | None:
    """Return a sentence about queues that could not be read any more; None if all stay readable."""
    sentences = []
    for topic, changes in plan.by_topic().items():
        hidden = {(each.broker, number) for each in changes for number in each.hidden}
        if hidden:
            queues = admin.topics.describe(topic).queues
            left = sum(each.messages for each in queues if (each.queue.broker, each.queue.queue_id) in hidden)
            what = f"{pluralize(len(hidden), 'queue')} of topic {topic!r} with {pluralize(left, 'message')}"
            sentences.append(f"{what} could not be read any more")
    return "; ".join(sentences) or None


def _parse_queue_counts(parts: list[str]) -> dict[str, int]:
    counts = {}
    for each in parts:
        broker, _, number = each.rpartition(":")
        if not broker or not number.isascii() or not number.isdigit() or len(number) > 9:
            raise ConfigurationError(f"--fix is {each!r}", next_step="write BROKER:QUEUES, or all")
        counts[broker] = int(number)
    return counts
