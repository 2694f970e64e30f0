"""`steelyard up`: a name server and brokers on this machine, ready in less than a second.

Without ``--port`` they are where clients look for them: the name server at 9876, the first broker at 10911, further
ones at 10921, 10931 and so on. With ``--port P`` the name server is at P and the brokers at P+4, P+8 and so on; with
``--join`` there is no name server, and the first broker is at P. A broker is also found two ports below its own, where
older Java clients send to. Beside them is a page for browsers, at 9877 or any free port. Exit codes: 0 stopped when
told to, 1 it could not be started (a port or a directory cannot be had), 2 it was asked for something that cannot be.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.frame.exits import Exit
from steelyard.cli.frame.nouns import verb
from steelyard.cli.frame.pages import TOKEN_VARIABLE, page_options
from steelyard.cli.frame.screen import refuse
from steelyard.errors import ConfigurationError, StoreError, TransportError
from steelyard.errors.extras import how_to_install

if TYPE_CHECKING:
    from steelyard.dashboard.options import PageOptions
    from steelyard.dashboard.page import Page
    from steelyard.serve.cluster import RunningCluster

__all__ = ["FlushMode", "up"]

_DATA = Path("steelyard-data")
_PAGE, _BROKERS = "The page", "The brokers"


class FlushMode(StrEnum):
    """When a send is answered."""

    SYNC = "sync"
    ASYNC = "async"


@verb(
    "steelyard up",
    "steelyard up --brokers 2 --memory",
    "steelyard up --port 0 --json",
    "steelyard up --join mq-1:9876 --port 10950",
)
def up(
    brokers: Annotated[int, typer.Option(help="How many brokers.")] = 1,
    port: Annotated[
        int | None,
        typer.Option(help="The name server's port; brokers follow. 0: any free ones.", show_default="9876 and 10911"),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Where messages are kept.", show_default=str(_DATA))] = None,
    memory: Annotated[bool, typer.Option("--memory", help="Keep everything in memory.")] = False,
    flush: Annotated[
        FlushMode, typer.Option(help="async: a send is answered once it is in the log; sync: once it is on the disk.")
    ] = FlushMode.ASYNC,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON when ready.")] = False,
    namesrv_only: Annotated[bool, typer.Option("--namesrv-only", help="Run a name server and no broker.")] = False,
    join: Annotated[
        str | None,
        typer.Option(metavar="ADDR", help="Run brokers for these name servers (a:1;b:2).", show_default=False),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    advertise: Annotated[
        str | None, typer.Option(help="The address clients are told, if it is another.", show_default=False)
    ] = None,
    insecure_allow_remote: Annotated[
        bool, typer.Option("--insecure-allow-remote", help="Let other machines in: there is no password.")
    ] = False,
    broker_name: Annotated[
        str | None, typer.Option(help="The broker's name, or what several names begin with.", show_default="broker-0")
    ] = None,
    cluster: Annotated[str, typer.Option(help="The cluster's name.")] = "DefaultCluster",
    no_auto_create_topics: Annotated[
        bool,
        typer.Option(
            "--no-auto-create-topics", help="Refuse a send to a topic that nobody made.", rich_help_panel=_BROKERS
        ),
    ] = False,
    default_topic_queues: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Queues that a topic made by its first send may have; clients ask for 4.",
            show_default="as it was, 8 at first",
            rich_help_panel=_BROKERS,
        ),
    ] = None,
    refuse_duplicates: Annotated[
        bool,
        typer.Option(
            "--refuse-duplicates",
            help="Refuse a member whose client id another one of its group has.",
            rich_help_panel=_BROKERS,
        ),
    ] = False,
    refuse_unequal: Annotated[
        bool,
        typer.Option(
            "--refuse-unequal",
            help="Refuse a member that subscribes to other things than its group.",
            rich_help_panel=_BROKERS,
        ),
    ] = False,
    no_notices: Annotated[
        bool,
        typer.Option(
            "--no-notices",
            help="Do not tell members when their group changes: they look by themselves.",
            rich_help_panel=_BROKERS,
        ),
    ] = False,
    page_port: Annotated[
        int | None,
        typer.Option(
            help="The page's port. 0: any free one.", show_default="9877, or any that is free", rich_help_panel=_PAGE
        ),
    ] = None,
    no_page: Annotated[bool, typer.Option("--no-page", help="Serve no page.", rich_help_panel=_PAGE)] = False,
    page_token: Annotated[
        str | None,
        typer.Option(
            envvar=TOKEN_VARIABLE,
            help="What lets browsers in; safer in the environment than here.",
            show_default="a new one each time",
            show_envvar=True,
            rich_help_panel=_PAGE,
        ),
    ] = None,
    page_read_only: Annotated[
        bool,
        typer.Option("--page-read-only", help="Let nobody change anything through the page.", rich_help_panel=_PAGE),
    ] = False,
    page_also_as: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A further name that browsers know the page by, as that of a proxy; can be repeated.",
            rich_help_panel=_PAGE,
        ),
    ] = None,
    page_audit: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Add a line to this file for every change made through the page.",
            show_default=False,
            rich_help_panel=_PAGE,
        ),
    ] = None,
) -> None:
    """Run a name server and brokers here, with a page to look at, until Ctrl-C."""
    # Here and not above, so that other verbs do not wait for what they do not need.
    from steelyard.client.connect import Connect
    from steelyard.serve.plan import ClusterPlan
    from steelyard.serve.up import run_cluster

    if memory and data is not None:
        raise ConfigurationError("--memory and --data exclude each other", next_step="give one of them")
    if join is not None and namesrv_only:
        raise ConfigurationError("--join and --namesrv-only exclude each other", next_step="give one of them")
    plan = ClusterPlan(
        brokers=0 if namesrv_only else brokers,
        name_servers=0 if join is not None else 1,
        join=() if join is None else Connect(join).name_servers,
        host=host,
        advertise=advertise,
        allow_remote=insecure_allow_remote,
        port=port,
        data=None if memory else data or _DATA,
        flush=flush.value,
        cluster=cluster,
        broker_name=broker_name,
    )
    if page_port is None and port == 0:
        page_port = 0  # whoever wants free ports means all of them
    wants_page = not no_page and (page_port is not None or not namesrv_only)
    options = page_options(
        port=page_port, token=page_token, hosts=page_also_as, read_only=page_read_only, audit=page_audit
    )
    say = _say_json if as_json else _say
    with _log_on_stderr():
        page = None
        try:
            page = _page(options) if wants_page else None
            run_cluster(
                plan,
                lambda cluster: _beside(cluster, page, say),
                auto_create_topics=not no_auto_create_topics,
                default_topic_queues=default_topic_queues,
                refuse_duplicates=refuse_duplicates,
                refuse_unequal=refuse_unequal,
                notices=not no_notices,
            )
        except (StoreError, TransportError) as error:
            raise typer.Exit(refuse(str(error), Exit.FAILED)) from None
        finally:
            if page is not None:
                page.stop()


def _page(options: "PageOptions") -> "Page | None":
    """Take the page's port before anything is started; None where there can be no page and nobody insists."""
    from steelyard.dashboard.page import Page, can_be_served

    return Page(options=options) if options.port or can_be_served() else None


@contextmanager
def _beside(
    cluster: "RunningCluster", page: "Page | None", say: "Callable[[RunningCluster, Page | None], None]"
) -> Iterator[None]:
    """Say that all is ready, and serve the page meanwhile."""
    if page is None:
        say(cluster, None)
        yield
        return
    from steelyard.serve.measuring import measured_from_elsewhere

    page.look_at(";".join(cluster.name_server_addresses), measured_from_elsewhere(cluster))
    say(cluster, page)
    with page:
        yield


@contextmanager
def _log_on_stderr() -> Iterator[None]:
    """Let the servers say on stderr what whoever runs them should know."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger("steelyard")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _say_json(cluster: "RunningCluster", page: "Page | None") -> None:
    import msgspec

    ready = {
        "namesrv": ";".join(cluster.name_server_addresses),
        "brokers": cluster.broker_addresses,
        "page": None if page is None else page.url,
    }
    sys.stdout.write(msgspec.json.encode(ready).decode() + "\n")
    sys.stdout.flush()


def _say(cluster: "RunningCluster", page: "Page | None") -> None:
    from steelyard.dashboard.page import can_be_served

    plan = cluster.plan
    name_servers = ";".join(cluster.name_server_addresses)
    lines = [f"name server  {name_servers}{' (joined)' if plan.join else ''}"]
    lines += [f"{name:<11}  {address}" for name, address in cluster.broker_addresses.items()]
    lines.append(f"messages     {'in memory, gone when this ends' if plan.data is None else plan.data.resolve()}")
    if page is not None:
        lines.append(f"page         {page.url}")
    elif not can_be_served():
        lines.append(f"page         none; to have one, {how_to_install('page')}")
    lines.append("ready; stop it with Ctrl-C")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
