"""`steelyard up`: a name server and brokers on this machine, ready in less than a second.

Without ``--port`` they use the default ports: the name server 9876, brokers 10911, 10921, 10931 and so on. With
``--port P`` the name server is at P and brokers at P+4, P+8 and so on; with ``--join`` there is no name server, and the
first broker is at P. A broker also listens two ports below its own, for older Java clients (VIP channel). The dashboard
is at 9877 or any free port. Exit codes: 0 stopped by a signal, 1 a port or directory cannot be used, 2 wrong usage.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from click.exceptions import Exit

from steelyard.cli.shared.commands import command
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.cli.shared.options import TOKEN_VARIABLE, LineOutput
from steelyard.cli.shared.parameters import option
from steelyard.cli.shared.terminal import print_error
from steelyard.errors import ConfigurationError, StoreError, TransportError, how_to_install

if TYPE_CHECKING:
    from steelyard.dashboard.options import DashboardOptions
    from steelyard.dashboard.server import Dashboard
    from steelyard.serve.cluster import RunningCluster

_DEFAULT_DATA_DIR = Path("steelyard-data")


class FlushMode(StrEnum):
    """When a send is acknowledged."""

    SYNC = "sync"
    ASYNC = "async"


@command(
    "steelyard up",
    "steelyard up --brokers 2 --memory",
    "steelyard up --port 0 --json",
    "steelyard up --join mq-1:9876 --port 10950",
)
def up(
    out: LineOutput,
    brokers: Annotated[int, option(help="How many brokers.")] = 1,
    port: Annotated[
        int | None,
        option(help="The name server's port; brokers follow. 0: any free ones.", show_default="9876 and 10911"),
    ] = None,
    data: Annotated[Path | None, option(help="The data directory.", show_default=str(_DEFAULT_DATA_DIR))] = None,
    memory: Annotated[bool, option(help="Keep everything in memory.")] = False,
    flush: Annotated[
        FlushMode, option(help="async: acknowledge a send once it is in the log; sync: once it is on disk.")
    ] = FlushMode.ASYNC,
    namesrv_only: Annotated[bool, option(help="Run a name server and no broker.")] = False,
    join: Annotated[str | None, option(metavar="ADDR", help="Run brokers for these name servers (a:1;b:2).")] = None,
    host: Annotated[str, option(help="The address to listen at.")] = "127.0.0.1",
    advertise: Annotated[str | None, option(help="The address that clients connect to, if it differs.")] = None,
    insecure_allow_remote: Annotated[bool, option(help="Allow other machines: there is no password.")] = False,
    broker_name: Annotated[
        str | None, option(help="The broker's name, or the prefix of several names.", show_default="broker-0")
    ] = None,
    cluster: Annotated[str, option(help="The cluster's name.")] = "DefaultCluster",
    no_auto_create_topics: Annotated[
        bool, option(panel="Brokers", help="Reject a send to a topic that does not exist.")
    ] = False,
    default_topic_queues: Annotated[
        int | None,
        option(
            panel="Brokers",
            help="Maximum queues of a topic created by its first send; clients ask for 4.",
            show_default="as it was, 8 at first",
        ),
    ] = None,
    refuse_duplicates: Annotated[
        bool, option(panel="Brokers", help="Reject a member with the client id of another one in its group.")
    ] = False,
    refuse_unequal: Annotated[
        bool, option(panel="Brokers", help="Reject a member whose subscriptions differ from its group.")
    ] = False,
    no_notices: Annotated[
        bool, option(panel="Brokers", help="Do not notify members when their group changes: they poll.")
    ] = False,
    dashboard_port: Annotated[
        int | None,
        option(
            panel="Dashboard", help="The dashboard's port. 0: any free one.", show_default="9877, or any that is free"
        ),
    ] = None,
    no_dashboard: Annotated[bool, option(panel="Dashboard", help="Serve no dashboard.")] = False,
    dashboard_token: Annotated[
        str | None,
        option(
            panel="Dashboard",
            envvar=TOKEN_VARIABLE,
            help="Access token for browsers; safer in the environment than here.",
            show_default="the one in the data directory; with --memory a new one",
        ),
    ] = None,
    dashboard_read_only: Annotated[
        bool, option(panel="Dashboard", help="Allow no changes through the dashboard.")
    ] = False,
    dashboard_also_as: Annotated[
        list[str] | None,
        option(
            panel="Dashboard",
            metavar="NAME",
            help="Another host name of the dashboard, such as that of a proxy; can be repeated.",
        ),
    ] = None,
    dashboard_audit: Annotated[
        Path | None,
        option(
            panel="Dashboard",
            metavar="FILE",
            help="Append a line to this file for every change made through the dashboard.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run a name server and brokers here, with a dashboard, until Ctrl-C."""
    from steelyard.client.config import ClientConfig
    from steelyard.dashboard.options import DashboardOptions
    from steelyard.serve.cluster import ClusterPlan, run_cluster

    if memory and data is not None:
        raise ConfigurationError("--memory and --data exclude each other", next_step="give one of them")
    if join is not None and namesrv_only:
        raise ConfigurationError("--join and --namesrv-only exclude each other", next_step="give one of them")
    plan = ClusterPlan(
        brokers=0 if namesrv_only else brokers,
        name_servers=0 if join is not None else 1,
        join=() if join is None else ClientConfig(join).name_servers,
        host=host,
        advertise=advertise,
        allow_remote=insecure_allow_remote,
        port=port,
        data=None if memory else data or _DEFAULT_DATA_DIR,
        flush=flush.value,
        cluster=cluster,
        broker_name=broker_name,
    )
    if dashboard_port is None and port == 0:
        dashboard_port = 0  # --port 0 asks for free ports everywhere
    wants_dashboard = not no_dashboard and (dashboard_port is not None or not namesrv_only)
    given: dict[str, Any] = {} if dashboard_token is None else {"token": dashboard_token}
    options = DashboardOptions(
        port=dashboard_port,
        extra_hosts=tuple(dashboard_also_as or ()),
        read_only=dashboard_read_only,
        audit_file=dashboard_audit,
        **given,
    )
    announce = _announce_json if out.is_json else _announce
    with _server_log_on_stderr():
        dashboard = None
        try:
            dashboard = _make_dashboard(options) if wants_dashboard else None
            run_cluster(
                plan,
                lambda cluster: _announce_and_serve(cluster, dashboard, announce, keep_token=dashboard_token is None),
                auto_create_topics=not no_auto_create_topics,
                default_topic_queues=default_topic_queues,
                refuse_duplicates=refuse_duplicates,
                refuse_unequal=refuse_unequal,
                notices=not no_notices,
            )
        except (StoreError, TransportError) as error:
            raise Exit(print_error(str(error), ExitCode.FAILED)) from None
        finally:
            if dashboard is not None:
                dashboard.stop()


def _make_dashboard(options: "DashboardOptions") -> "Dashboard | None":
    """Bind the dashboard's port before anything is started; None if its extra is missing and no port was given."""
    from steelyard.dashboard.server import Dashboard, is_installed

    return Dashboard(options=options) if options.port or is_installed() else None


@contextmanager
def _announce_and_serve(
    cluster: "RunningCluster",
    dashboard: "Dashboard | None",
    announce: "Callable[[RunningCluster, Dashboard | None], None]",
    *,
    keep_token: bool,
) -> Iterator[None]:
    """Print that the cluster is ready, and serve the dashboard meanwhile."""
    if dashboard is None:
        announce(cluster, None)
        yield
        return
    from steelyard.serve.metrics import metrics_collector

    if cluster.plan.data is not None:
        dashboard.keep_in(cluster.plan.data / "dashboard", with_token=keep_token)
    dashboard.set_cluster(";".join(cluster.name_server_addresses), metrics_collector(cluster))
    announce(cluster, dashboard)
    with dashboard:
        yield


@contextmanager
def _server_log_on_stderr() -> Iterator[None]:
    """Write the servers' log to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger("steelyard")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _announce_json(cluster: "RunningCluster", dashboard: "Dashboard | None") -> None:
    ready = {
        "namesrv": ";".join(cluster.name_server_addresses),
        "brokers": cluster.broker_addresses,
        "dashboard": None if dashboard is None else dashboard.url,
    }
    sys.stdout.write(msgspec.json.encode(ready).decode() + "\n")
    sys.stdout.flush()


def _announce(cluster: "RunningCluster", dashboard: "Dashboard | None") -> None:
    from steelyard.dashboard.server import is_installed

    plan = cluster.plan
    name_servers = ";".join(cluster.name_server_addresses)
    lines = [f"name server  {name_servers}{' (joined)' if plan.join else ''}"]
    lines += [f"{name:<11}  {address}" for name, address in cluster.broker_addresses.items()]
    lines.append(f"messages     {'in memory, gone when this ends' if plan.data is None else plan.data.resolve()}")
    if dashboard is not None:
        lines.append(f"dashboard    {dashboard.url}")
    elif not is_installed():
        lines.append(f"dashboard    none; to have one, {how_to_install('dashboard')}")
    lines.append("ready; stop it with Ctrl-C")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
