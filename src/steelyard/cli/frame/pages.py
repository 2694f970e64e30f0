"""The page's options as people give them to `steelyard up` and `steelyard page`: one value of both."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard.dashboard.options import PageOptions

__all__ = ["TOKEN_VARIABLE", "page_options"]

TOKEN_VARIABLE = "STEELYARD_PAGE_TOKEN"


def page_options(
    *,
    port: int | None,
    token: str | None,
    hosts: list[str] | None,
    read_only: bool,
    audit: "Path | None",
    host: str = "127.0.0.1",
    allow_remote: bool = False,
) -> "PageOptions":
    """Return the options as one value, checked."""
    from steelyard.dashboard.options import PageOptions

    given = {} if token is None else {"token": token}
    return PageOptions(
        host=host,
        port=port,
        hosts=tuple(hosts or ()),
        read_only=read_only,
        audit=audit,
        allow_remote=allow_remote,
        **given,
    )
