"""What this machine says about why it does not work. Pure: facts in, findings out."""

from collections.abc import Iterator

from steelyard.cli.doctor.finding import Finding, look, ok, wrong
from steelyard.cli.doctor.here import EXTRAS, Here
from steelyard.errors.extras import how_to_install

__all__ = ["judge_here"]

_FEW_FILES = 1_024


def judge_here(here: Here, *, is_reached: bool) -> Iterator[Finding]:
    """Judge this machine; ``is_reached`` says whether a name server works, so that nothing has to be blamed."""
    without = [
        f", without {', '.join(missing)} (the extra steelyard[{extra}])"
        for extra in ("fast", "lz4")
        if (missing := [package for package in EXTRAS[extra] if package in here.missing])
    ]
    extras = "".join(without) or ", with all of fast and lz4"
    yield ok("this machine", f"Python {here.python} on {here.system}, steelyard {here.release}{extras}")
    if here.open_files is not None and here.open_files < _FEW_FILES:
        yield look(
            "this machine",
            f"a process may have only {here.open_files:,} files and lines open",
            "raise it before you run brokers or many clients: ulimit -n 65536",
        )
    if not is_reached and here.proxies:
        yield look(
            "this machine",
            f"{', '.join(here.proxies)} {'is' if len(here.proxies) == 1 else 'are'} set, and messaging goes through no "
            "proxy",
            "name servers and brokers must be reachable directly",
        )
    if here.no_java is not None:
        yield wrong("spark", f"Spark has no Java to run on: {here.no_java}", how_to_install("local"))
    if here.java is not None:
        missing = [package for package in EXTRAS["spark"] if package in here.missing]
        if missing:
            yield wrong("spark", f"{', '.join(missing)} not installed", how_to_install("spark"))
        else:
            yield ok("spark", f"it runs on {here.java}")
    if here.said_by:
        yield ok("address", f"{here.address}, by {here.said_by}")
    elif is_reached:
        yield ok("address", f"{here.address}, since nothing else was said")
    else:
        yield look(
            "address",
            f"nothing was said about where the cluster is, so {here.address} was tried",
            "say it with --namesrv host:port or NAMESRV_ADDR, or once: steelyard context add NAME --namesrv host:port",
        )
