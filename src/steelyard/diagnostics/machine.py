"""Rules for this machine: Python and its packages, limits, proxies, Java for Spark, where the address comes from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from sys import version_info

from steelyard.diagnostics import thresholds
from steelyard.diagnostics.servers import ok
from steelyard.errors import how_to_install
from steelyard.model.finding import Finding, Severity

EXTRA_PACKAGES: Mapping[str, tuple[str, ...]] = {
    "fast": ("uvloop", "backports.zstd") if version_info < (3, 14) else ("uvloop",),
    "lz4": ("lz4",),
    "spark": ("pyspark", "pyarrow", "numpy"),
}
"""The packages of each extra."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """This machine, and where the name server address comes from."""

    python: str
    system: str
    release: str
    address: str
    missing: tuple[str, ...] = ()
    """Packages of extras that are not installed."""
    address_source: str = ""
    """What gave the address: an option, a context or the environment; empty for the default."""
    proxies: tuple[str, ...] = ()
    open_file_limit: int | None = None
    """How many files and connections a process may have open; None where the system has no limit."""
    java: str | None = None
    """The Java that Spark would use; None if it was not checked."""
    java_problem: str | None = None
    """Why there is no Java."""

    def lacks(self, extra: str) -> list[str]:
        """Return the packages of an extra that are missing."""
        return [package for package in EXTRA_PACKAGES[extra] if package in self.missing]


def diagnose_machine(here: MachineFacts, *, is_reached: bool) -> Iterator[Finding]:
    """Yield findings about this machine; while a name server works, less of it can be the cause."""
    without = [
        f", without {', '.join(missing)} (the extra steelyard[{extra}])"
        for extra in ("fast", "lz4")
        if (missing := here.lacks(extra))
    ]
    extras = "".join(without) or ", with all of fast and lz4"
    yield ok("this machine", f"Python {here.python} on {here.system}, steelyard {here.release}{extras}")
    if here.open_file_limit is not None and here.open_file_limit < thresholds.MIN_OPEN_FILES:
        what = f"a process may have only {here.open_file_limit:,} files and connections open"
        step = "raise it before you run brokers or many clients: ulimit -n 65536"
        yield Finding("few open files", what, Severity.WARNING, "this machine", step)
    if not is_reached and here.proxies:
        what = f"proxies are set ({', '.join(here.proxies)}), and messaging goes through none"
        step = "name servers and brokers must be reachable directly"
        yield Finding("proxies", what, Severity.WARNING, "this machine", step)
    if here.java_problem is not None:
        what = f"Spark has no Java to run on: {here.java_problem}"
        yield Finding("no java", what, subject="spark", next_step=how_to_install("local"))
    elif here.java is not None and (missing := here.lacks("spark")):
        what = f"{', '.join(missing)} not installed"
        yield Finding("no spark", what, subject="spark", next_step=how_to_install("spark"))
    elif here.java is not None:
        yield ok("spark", f"it runs on {here.java}")
    if here.address_source or is_reached:
        by = f", by {here.address_source}" if here.address_source else ", the default"
        yield ok("address", f"{here.address}{by}")
    else:
        what = f"no name server is given, so {here.address} was tried"
        step = "give --namesrv host:port or NAMESRV_ADDR, or once: steelyard context add NAME --namesrv host:port"
        yield Finding("no address", what, Severity.WARNING, "address", step)
