"""`steelyard member`: who is in a group, and what one of them does right now.

Brokers know who is there; what a member holds, and how it gets on, only the member itself can say, and it is asked
through a broker. Members of a group must want the same: what does not fit is told on stderr, beside the answer.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.frame.arguments import GroupName, MemberName
from steelyard.cli.frame.moments import on_the_clock
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Column, Format, Out
from steelyard.cli.frame.screen import note
from steelyard.cli.frame.where import Where, at_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.client.admin.members import Running

__all__ = ["app"]

app = Noun("member", "Look at the members of a group.")


@app.verb("ls", "steelyard member ls billing", "steelyard member ls billing --output csv")
@at_cluster
def _list_members(where: Where, out: Out, group: GroupName) -> None:
    """List who is online, with what each wants and has."""
    from steelyard.cli.frame.short_names import short_names, shortened
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        view = admin.group(group)
    names, owned = short_names(view.owned()), view.owned()
    waiting = {name: sum(each.lag or 0 for each in view.queues if name in each.owners) for name in owned}
    out.rows(
        [
            Column("name", "member"),
            Column("address"),
            Column("client"),
            Column("strategy"),
            Column("queues", right=True, show=lambda queues: str(len(queues))),
            Column("lag", "waiting", right=True),
            Column("started_at", "since", show=on_the_clock),
            Column("wants"),
        ],
        (
            {
                "name": names[each.id],
                "id": each.id,
                "address": each.address,
                "client": f"{each.language} {each.release}",
                "language": each.language,
                "release": each.release,
                "ours": each.ours,
                "strategy": each.strategy,
                "queues": [str(queue) for queue in owned[each.id]],
                "lag": waiting[each.id],
                "started_at": each.started_at,
                "wants": _wants(each.filters) if each.filters is not None else each.topics,
                "leaving": each.leaving,
                "brokers": each.brokers,
            }
            for each in view.members
        ),
    )
    if not view.members:
        note(f"nobody of group {group} is online")
    for hazard in view.hazards:
        note(f"look: {shortened(hazard.sentence, names)}")
    for line in view.notes:
        note(f"note: {line}")


@app.verb(
    "show",
    "steelyard member show billing till-1",
    "steelyard member show billing till-1 --stacks",
    "steelyard member show billing till-1 --json | jq .queues",
)
@at_cluster
def _show_member(
    where: Where,
    out: Out,
    group: GroupName,
    member: MemberName,
    stacks: Annotated[bool, typer.Option("--stacks", help="Also where each of its threads is.")] = False,
) -> None:
    """Ask a member what it has, and how it gets on."""
    from steelyard.cli.frame.short_names import short_names
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        there = short_names(each.id for each in admin.members(group))
        meant = [each for each, name in there.items() if member in (each, name)]
        running = admin.ask_member(group, meant[0] if len(meant) == 1 else member, stacks=stacks)
    if out.form in (Format.JSON, Format.JSONL):
        out.one({**_about(running), **_details(running), **({"stacks": running.stacks} if stacks else {})})
        return
    if out.is_table:
        out.one(_about(running))
    _show_queues(out, running)
    if out.is_table:
        _show_speeds(out, running)
        if stacks:
            for line in (running.stacks or "it does not tell where its threads are").splitlines():
                out.done(line)


def _about(running: "Running") -> dict[str, object]:
    return {
        "id": running.id,
        "started_at": running.started_at,
        "wants": _wants(running.subscriptions),
        "settings": running.settings,
    }


def _details(running: "Running") -> dict[str, object]:
    return {"queues": _queues(running), "topics": dict(sorted(running.topics.items()))}


def _queues(running: "Running") -> list[dict[str, object]]:
    return [
        {
            "topic": each.queue.topic,
            "broker": each.queue.broker,
            "queue_id": each.queue.queue_id,
            "committed": each.committed,
            "waiting": each.waiting,
            "locked": each.locked,
            "leaving": each.leaving,
            "pulled_at": each.pulled_at,
            "consumed_at": each.consumed_at,
        }
        for each in running.queues
    ]


def _show_queues(out: Out, running: "Running") -> None:
    out.rows(
        [
            Column("topic"),
            Column("broker"),
            Column("queue_id", "queue", right=True),
            Column("committed", right=True),
            Column("waiting", "in hand", right=True),
            Column("locked"),
            Column("leaving"),
            Column("pulled_at", "pulled", show=on_the_clock),
            Column("consumed_at", "handled", show=on_the_clock),
        ],
        _queues(running),
    )


def _show_speeds(out: Out, running: "Running") -> None:
    out.rows(
        [
            Column("topic"),
            Column("handled_tps", "handled/s", right=True),
            Column("failed_tps", "failed/s", right=True),
            Column("handle_ms", "ms each", right=True),
        ],
        (
            {
                "topic": topic,
                "handled_tps": speed.handled_tps,
                "failed_tps": speed.failed_tps,
                "handle_ms": speed.handle_ms,
            }
            for topic, speed in sorted(running.topics.items())
        ),
    )


def _wants(filters: "Mapping[str, str]") -> list[str]:
    """Return what a member wants: topics, with tags or an expression where it does not want all."""
    return [topic if text in ("", "*") else f"{topic}: {text}" for topic, text in sorted(filters.items())]
