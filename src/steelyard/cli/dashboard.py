"""`steelyard dashboard`: a cluster in the browser, ours or Apache's, until Ctrl-C.

`steelyard up` serves the same dashboard beside its brokers; this is for clusters that run elsewhere.
"""

import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from steelyard.cli.shared.commands import command
from steelyard.cli.shared.options import TOKEN_VARIABLE, ClientOptions, LineOutput
from steelyard.cli.shared.parameters import option

if TYPE_CHECKING:
    from steelyard.client.sync.admin import Admin


@command(
    "steelyard dashboard",
    "steelyard dashboard --namesrv mq-1:9876 --read-only",
    "steelyard dashboard --data steelyard-data --port 0 --json",
)
def dashboard(
    admin: "Admin",
    client: ClientOptions,
    out: LineOutput,
    port: Annotated[
        int | None, option(help="The dashboard's port. 0: any free one.", show_default="9877, or any that is free")
    ] = None,
    read_only: Annotated[bool, option(help="Allow no changes.")] = False,
    token: Annotated[
        str | None,
        option(
            envvar=TOKEN_VARIABLE,
            help="Access token for browsers; safer in the environment than here.",
            show_default="the one in --data, else a new one",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        option(metavar="DIR", help="A data directory, such as that of `steelyard up`, to keep the token in."),
    ] = None,
    also_as: Annotated[
        list[str] | None,
        option(metavar="NAME", help="Another host name of the dashboard, such as that of a proxy; can be repeated."),
    ] = None,
    audit: Annotated[Path | None, option(metavar="FILE", help="Append a line to this file for every change.")] = None,
    host: Annotated[str, option(help="The address to listen at.")] = "127.0.0.1",
    insecure_allow_remote: Annotated[bool, option(help="Allow other machines: connections are not encrypted.")] = False,
) -> None:
    """Show a cluster in the browser, ours or Apache's, until Ctrl-C."""
    from steelyard.dashboard.options import DashboardOptions
    from steelyard.dashboard.server import Dashboard

    given: dict[str, Any] = {} if token is None else {"token": token}
    options = DashboardOptions(
        host=host,
        port=port,
        extra_hosts=tuple(also_as or ()),
        read_only=read_only,
        allow_remote=insecure_allow_remote,
        audit_file=audit,
        **given,
    )
    config = client.config()
    running = Dashboard(config, options)
    try:
        admin.brokers.instances()  # an unreachable cluster is an error now, not later in the browser
    except BaseException:
        running.stop()
        raise
    if data is not None:
        running.keep_in(data / "dashboard", with_token=token is None)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with running:
        if out.is_json:
            line = msgspec.json.encode({"dashboard": running.url, "namesrv": str(config)}).decode()
        else:
            line = f"dashboard    {running.url}\ncluster      {config}\nready; stop it with Ctrl-C"
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        stop.wait()
