"""What this machine says about why it does not work. Pure: facts in, findings out."""

from collections.abc import Iterator

from steelyard.cli.doctor.finding import Finding, look, ok, wrong
from steelyard.cli.doctor.here import EXTRAS, Here

__all__ = ["judge_here"]

_FEW_FILES = 1_024


def judge_here(here: Here, *, is_reached: bool) -> Iterator[Finding]:
    """Judge this machine; ``is_reached`` says whether a name server works, so that nothing has to be blamed."""
    missing_fast = [package for package in EXTRAS["fast"] if package in here.missing]
    fast = f", without {', '.join(missing_fast)} (the extra steelyard[fast])" if missing_fast else ", with all of fast"
    yield ok("this machine", f"Python {here.python} on {here.system}, steelyard {here.release}{fast}")
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
        yield wrong("spark", f"Spark has no Java to run on: {here.no_java}", "pip install 'steelyard[local]'")
    if here.java is not None:
        missing = [package for package in EXTRAS["spark"] if package in here.missing]
        if missing:
            yield wrong("spark", f"{', '.join(missing)} not installed", "pip install 'steelyard[spark]'")
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
