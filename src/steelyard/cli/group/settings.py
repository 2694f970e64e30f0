"""A group's settings as options, declared once for the verbs that take them.

A verb takes a `GroupRules` after where and how to answer, and is wrapped by `with_settings`; on the command line that
is the group's name and an option for each setting. One that is not given is not in the wish.
"""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.frame.arguments import GroupName
from steelyard.errors import ConfigurationError

if TYPE_CHECKING:
    from steelyard.client.admin.group_rules import GroupRules

__all__ = ["with_settings"]

_PANEL = "The group"


def _settings(
    *,
    group: GroupName,
    retries: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="How often a message is tried again before it rests in the dead letters; usually 16.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    consume: Annotated[
        bool | None,
        typer.Option(
            "--consume/--no-consume", help="Whether members get messages.", show_default=False, rich_help_panel=_PANEL
        ),
    ] = None,
    broadcast: Annotated[
        bool | None,
        typer.Option(
            "--broadcast/--no-broadcast",
            help="Whether members may ask for all messages each.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    from_first: Annotated[
        bool | None,
        typer.Option(
            "--from-first/--not-from-first",
            help="Whether members may begin with the first message of a queue.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    notices: Annotated[
        bool | None,
        typer.Option(
            "--notices/--no-notices",
            help="Whether members are told at once who comes and goes.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    retry_queues: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many queues its retries have on a broker; usually 1.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    read_from: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="ID",
            help="The replica to read from; 0 is the master.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    slow_read_from: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="ID",
            help="The replica for those who read what is no longer in memory.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    orderly: Annotated[
        bool | None,
        typer.Option(
            "--orderly/--not-orderly",
            help="Whether what is popped comes in order (5.0 and later).",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    timeout_minutes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How long a member that pops may handle a message; usually 15 (5.0 and later).",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    retry_policy: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="How long what was popped waits before it comes again (5.0 and later).",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="An attribute (5.0 and later); NAME= takes it away.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
) -> None: ...


_OPTIONS = tuple(inspect.signature(_settings).parameters.values())


def with_settings(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options of a group's settings; it gets them as its third argument."""
    own = list(inspect.signature(verb).parameters.values())

    def run(*first: Any, **given: Any) -> None:
        told = {each.name: given.pop(each.name) for each in _OPTIONS}
        verb(*first, _wish(**told), **given)

    taken = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*_OPTIONS, *own[3:])]
    run.__dict__.update(verb.__dict__, __signature__=inspect.Signature([*own[:2], *taken]))
    run.__name__, run.__doc__, run.__annotations__ = verb.__name__, verb.__doc__, {}
    return run


def _wish(*, group: str, retry_policy: str | None, attribute: list[str] | None, **plain: Any) -> "GroupRules":
    from steelyard.client.admin.group_rules import GroupRules, policy_of

    policy = None if retry_policy is None else policy_of(retry_policy)
    return GroupRules(name=group, retry_policy=policy, attributes=_attributes(attribute), **plain)


def _attributes(given: list[str] | None) -> dict[str, str] | None:
    if not given:
        return None
    found: dict[str, str] = {}
    for each in given:
        name, sign, value = each.partition("=")
        if not name or not sign:
            raise ConfigurationError(f"{each!r} is no attribute", next_step="write it as NAME=VALUE")
        found[name] = value
    return found
