"""`steelyard page`: a cluster in the browser, ours or Apache's, until Ctrl-C.

`steelyard up` serves the same page beside its brokers; this is for clusters that run elsewhere. Exit codes: 0 stopped
when told to, and those of every verb that asks a cluster.
"""

import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.frame.nouns import verb
from steelyard.cli.frame.pages import TOKEN_VARIABLE, page_options
from steelyard.cli.frame.where import Where, at_cluster

__all__ = ["page"]


@verb(
    "steelyard page",
    "steelyard page --namesrv mq-1:9876 --read-only",
    "steelyard page --port 0 --json",
)
@at_cluster
def page(
    where: Where,
    port: Annotated[
        int | None, typer.Option(help="The page's port. 0: any free one.", show_default="9877, or any that is free")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Let nobody change anything through it.")] = False,
    token: Annotated[
        str | None,
        typer.Option(
            envvar=TOKEN_VARIABLE,
            help="What lets browsers in; safer in the environment than here.",
            show_default="a new one each time",
            show_envvar=True,
        ),
    ] = None,
    also_as: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A further name that browsers know it by, as that of a proxy; can be repeated."
        ),
    ] = None,
    audit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Add a line to this file for every change.", show_default=False)
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    insecure_allow_remote: Annotated[
        bool, typer.Option("--insecure-allow-remote", help="Let other machines ask for it: lines are not encrypted.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON when ready.")] = False,
) -> None:
    """Show a cluster in the browser, ours or Apache's, until Ctrl-C."""
    # Here and not above, so that help comes at once.
    from steelyard.client.blocking.admin import Admin
    from steelyard.dashboard.page import Page

    options = page_options(
        port=port,
        token=token,
        hosts=also_as,
        read_only=read_only,
        audit=audit,
        host=host,
        allow_remote=insecure_allow_remote,
    )
    connect = where.connect()
    running = Page(connect, options)
    try:
        with Admin(connect) as admin:  # a cluster that is not there is said now, and not in the browser
            admin.servers()
    except BaseException:
        running.stop()
        raise
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    with running:
        if as_json:
            import msgspec

            line = msgspec.json.encode({"page": running.url, "namesrv": str(connect)}).decode()
        else:
            line = f"page         {running.url}\ncluster      {connect}\nready; stop it with Ctrl-C"
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        told.wait()
