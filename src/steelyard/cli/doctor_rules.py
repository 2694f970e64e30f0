"""Rules of `steelyard doctor`: facts about this machine and the cluster in, findings with a next step out.

All but `collect_environment` is pure. Findings come in the order in which one would look: this machine, name servers,
brokers, topics, groups. Common causes are named: an address inside Docker, a broker's or dashboard's port given as a
name server's, TLS on one side only, a clock that is off.
"""

import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING

from steelyard.cli.shared.contexts import load_contexts
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.client.admin.brokers import BrokerReports
from steelyard.client.admin.topics import TopicKind, TopicSummary
from steelyard.client.config import DEFAULT_NAMESRV, NAMESRV_ENVIRONMENT
from steelyard.client.diagnostics import (
    BrokerFacts,
    ClusterFacts,
    ConnectOutcome,
    ConnectProbe,
    GroupHealthFacts,
    NameServerFacts,
    ServerKind,
)
from steelyard.errors import SteelyardError, how_to_install
from steelyard.model import Permission
from steelyard.model.finding import Finding, Severity
from steelyard.model.formatting import format_duration, format_release, pluralize, short_names, shorten_ids
from steelyard.version import __version__

if TYPE_CHECKING:
    from steelyard.cli.shared.options import ClientOptions


def _ok(subject: str, message: str) -> Finding:
    return Finding("", message, Severity.OK, subject)


def _warn(subject: str, message: str, next_step: str = "") -> Finding:
    return Finding("", message, Severity.WARNING, subject, next_step)


def _fail(subject: str, message: str, next_step: str) -> Finding:
    return Finding("", message, Severity.ERROR, subject, next_step)


_EXTRA_PACKAGES: Mapping[str, tuple[str, ...]] = {
    "fast": ("uvloop", "backports.zstd") if sys.version_info < (3, 14) else ("uvloop",),
    "lz4": ("lz4",),
    "spark": ("pyspark", "pyarrow", "numpy"),
}
"""The packages of each extra."""

_PROXY_VARIABLES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEnvironment:
    """This machine, and where the name server address comes from."""

    python: str = platform.python_version()
    system: str = ""
    release: str = __version__
    missing: tuple[str, ...] = ()
    """Packages of extras that are not installed."""
    address: str = DEFAULT_NAMESRV
    address_source: str = ""
    """What gave the address: an option, a context or the environment; empty for the default."""
    proxies: tuple[str, ...] = ()
    open_file_limit: int | None = None
    """How many files and connections a process may have open; None where the system has no limit."""
    java: str | None = None
    """The Java that Spark would use; None if it was not checked."""
    java_problem: str | None = None
    """Why there is no Java."""


def collect_environment(client: "ClientOptions", address: str, *, spark: bool = False) -> LocalEnvironment:
    """Collect the facts about this machine."""
    packages = [package for extra in _EXTRA_PACKAGES.values() for package in extra]
    java, no_java = _find_java() if spark else (None, None)
    return LocalEnvironment(
        system=f"{platform.system()} {platform.machine()}",
        missing=tuple(package for package in packages if not _is_installed(package)),
        address=address,
        address_source=_address_source(client),
        proxies=tuple(name for name in _PROXY_VARIABLES if os.environ.get(name) or os.environ.get(name.lower())),
        open_file_limit=_open_file_limit(),
        java=java,
        java_problem=no_java,
    )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


def _address_source(client: "ClientOptions") -> str:
    if client.namesrv:
        return "--namesrv"
    if client.context is not None:
        return f"context {client.context}"
    if os.environ.get(NAMESRV_ENVIRONMENT, "").strip():
        return NAMESRV_ENVIRONMENT
    chosen = load_contexts().chosen
    return f"context {chosen}" if chosen is not None else ""


def _open_file_limit() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _find_java() -> tuple[str | None, str | None]:
    from steelyard.spark.runtimes import find_java

    try:
        found = find_java(os.environ)
    except SteelyardError as error:
        return None, error.what
    return f"Java {found.version} ({found.source})", None


_MIN_OPEN_FILES = 1_024


def diagnose_environment(environment: LocalEnvironment, *, is_reached: bool) -> Iterator[Finding]:
    """Yield findings about this machine; while a name server works, less of it can be the cause."""
    without = [
        f", without {', '.join(missing)} (the extra steelyard[{extra}])"
        for extra in ("fast", "lz4")
        if (missing := [package for package in _EXTRA_PACKAGES[extra] if package in environment.missing])
    ]
    extras = "".join(without) or ", with all of fast and lz4"
    yield _ok(
        "this machine", f"Python {environment.python} on {environment.system}, steelyard {environment.release}{extras}"
    )
    if environment.open_file_limit is not None and environment.open_file_limit < _MIN_OPEN_FILES:
        yield _warn(
            "this machine",
            f"a process may have only {environment.open_file_limit:,} files and connections open",
            "raise it before you run brokers or many clients: ulimit -n 65536",
        )
    if not is_reached and environment.proxies:
        yield _warn(
            "this machine",
            f"proxies are set ({', '.join(environment.proxies)}), and messaging goes through none",
            "name servers and brokers must be reachable directly",
        )
    if environment.java_problem is not None:
        yield _fail("spark", f"Spark has no Java to run on: {environment.java_problem}", how_to_install("local"))
    if environment.java is not None:
        missing = [package for package in _EXTRA_PACKAGES["spark"] if package in environment.missing]
        if missing:
            yield _fail("spark", f"{', '.join(missing)} not installed", how_to_install("spark"))
        else:
            yield _ok("spark", f"it runs on {environment.java}")
    if environment.address_source:
        yield _ok("address", f"{environment.address}, by {environment.address_source}")
    elif is_reached:
        yield _ok("address", f"{environment.address}, the default")
    else:
        yield _warn(
            "address",
            f"no name server is given, so {environment.address} was tried",
            "give --namesrv host:port or NAMESRV_ADDR, or once: steelyard context add NAME --namesrv host:port",
        )


_FIX_BROKER_IP = "set brokerIP1 in the broker's configuration to an address that clients reach, and restart it"
_CLOCK_WARN, _CLOCK_FAIL = timedelta(seconds=5), timedelta(minutes=1)
_DISK_WARN, _DISK_FAIL = 0.75, 0.90
"""Apache's brokers delete messages early from the first on, and reject new ones from the second on."""

_OLDEST_TESTED_RELEASE = (4, 9)
_ACCESS_DENIED = re.compile(r"permission|signature|access ?key|\bacl|authenti|authori", re.IGNORECASE)
"""What servers answer to an unknown user."""

_SERVER_KIND_TEXTS: Mapping[ServerKind, tuple[str, str]] = {
    ServerKind.BROKER: (
        "a broker answers there, and no name server",
        "give the name server's port, mostly 9876; brokers have 10911 and find it by themselves",
    ),
    ServerKind.STRANGER: (
        "a server of the protocol answers there that is no name server, such as a controller or a proxy",
        "give the name server's address, mostly port 9876",
    ),
    ServerKind.HTTP: (
        "a web server answers there, such as a dashboard's or a proxy's",
        "give the name server's address, mostly port 9876",
    ),
    ServerKind.HTTP2: (
        "an HTTP/2 server answers there, such as the gRPC port of a 5.x proxy",
        "give the name server's address, mostly port 9876: the protocol here is remoting, not gRPC",
    ),
    ServerKind.TLS: (
        "it requires TLS",
        "add --tls, with --tls-ca FILE if the certificate authority is your own",
    ),
    ServerKind.PLAIN: ("it does not use TLS, and --tls was given", "leave --tls out, or turn TLS on at the server"),
    ServerKind.DISTRUSTED: (
        "its certificate is not trusted",
        "give its authority with --tls-ca FILE, connect by the name in the certificate, or add --tls-no-verify",
    ),
    ServerKind.WANTS_CERTIFICATE: (
        "the TLS handshake succeeds, and it closes the connection at once",
        "see whether it requires client certificates, which are not supported here: turn that off",
    ),
    ServerKind.MUTE: (
        "the port accepts connections but nothing answers",
        "see what listens there; a load balancer without a backend does so, and a server that hangs",
    ),
    ServerKind.HANGS_UP: (
        "the port accepts connections and closes them at once",
        "see what listens there; a load balancer without a backend does so",
    ),
    ServerKind.UNKNOWN: (
        "something answers there that does not speak the protocol",
        "see what listens at that port, and give the name server's, mostly 9876",
    ),
}


def diagnose_name_servers(seen: Sequence[NameServerFacts]) -> Iterator[Finding]:
    """Yield findings about each name server, and whether they agree."""
    for each in seen:
        yield _name_server_finding(each)
    working = [each for each in seen if each.works]
    if working:
        yield from _agreement_findings(working)


def _name_server_finding(seen: NameServerFacts) -> Finding:
    subject = f"name server {seen.address}"
    host, _, port = seen.address.rpartition(":")
    if seen.no_ip:
        return _fail(
            subject,
            f"the name {host} has no address here ({seen.no_ip})",
            "check its spelling, DNS and /etc/hosts; names of containers are known only to other containers",
        )
    if seen.dialled is not None and seen.dialled.outcome is not ConnectOutcome.OPEN:
        return _connect_failure(subject, seen.ips[0] if seen.ips else host, port, seen.dialled)
    if seen.brokers is not None:
        brokers = pluralize(len(seen.brokers), "broker")
        return _ok(subject, f"it answers in {seen.took_ms} ms and knows {brokers}")
    what, step = _SERVER_KIND_TEXTS.get(seen.kind or ServerKind.UNKNOWN, _SERVER_KIND_TEXTS[ServerKind.UNKNOWN])
    said = " ".join(seen.why.split())
    return _fail(subject, f"{what} ({said})" if said else what, step)


def _connect_failure(subject: str, ip: str, port: str, attempt: ConnectProbe) -> Finding:
    if attempt.outcome is ConnectOutcome.REFUSED:
        return _fail(
            subject,
            f"nothing listens at port {port} of {ip} (connection refused)",
            "start a name server there, such as: steelyard up; or check host and port",
        )
    if attempt.outcome is ConnectOutcome.TIMED_OUT:
        return _fail(
            subject,
            f"{ip} does not answer at port {port} ({attempt.why})",
            "see whether the host is up, and whether a firewall or security group lets the port through",
        )
    if attempt.outcome is ConnectOutcome.UNREACHABLE:
        return _fail(
            subject, f"this machine has no route to {ip} ({attempt.why})", "check the network, a VPN, or the address"
        )
    return _fail(subject, f"no connection to port {port} of {ip} ({attempt.why})", "check host, port and network")


def _agreement_findings(working: Sequence[NameServerFacts]) -> Iterator[Finding]:
    names = sorted({name for each in working for name in each.brokers or ()})
    if not names:
        yield _fail(
            "brokers",
            "no broker is registered",
            f"start one with namesrvAddr={';'.join(each.address for each in working)}, or: steelyard up",
        )
    differ = False
    for name in names:
        known = {each.address: (each.brokers or {}).get(name) for each in working}
        missing = [address for address, place in known.items() if place is None]
        addresses = {tuple(place.addresses.values()) for place in known.values() if place is not None}
        if missing:
            differ = True
            yield _fail(
                f"broker {name}",
                f"{', '.join(missing)} {'does' if len(missing) == 1 else 'do'} not know it, other name servers do: "
                "what a client sees depends on the name server it asks",
                "give the broker all name servers in namesrvAddr, and see whether it reaches them",
            )
        if len(addresses) > 1:
            differ = True
            listed = " and ".join(", ".join(each) for each in sorted(addresses))
            yield _fail(
                f"broker {name}",
                f"name servers have different addresses for it: {listed}",
                "two brokers may have one name and id: give each a brokerName, or a brokerId, of its own",
            )
    if len(working) > 1 and names and not differ:
        yield _ok("name servers", f"all {len(working)} agree")


def diagnose_brokers(brokers: Sequence[BrokerFacts], name_servers: Sequence[NameServerFacts]) -> Iterator[Finding]:
    """Yield findings about each broker: its addresses as reached from here, state, clock and disk."""
    are_here = all(_is_loopback(ip) for each in name_servers if each.works for ip in each.ips)
    for each in brokers:
        found = list(_broker_findings(each, names_are_here=are_here))
        yield from found or [_ok(f"broker {each.name}", _broker_summary(each))]
    versions = sorted({each.state.version for each in brokers if each.state is not None and each.state.version})
    if len(versions) > 1:
        yield _warn(
            "brokers",
            f"they are of different releases: {', '.join(map(format_release, versions))}",
            "fine during an upgrade; afterwards run one release",
        )


def _broker_summary(seen: BrokerFacts) -> str:
    state = seen.state
    address = next(iter(seen.dialled), "")
    took = f"{address} opens in {seen.dialled[address].took_ms} ms" if address else "it has no address"
    if state is None:
        return took
    words = [took, f"release {format_release(state.version)}" if state.version else ""]
    if state.disk_used is not None:
        words.append(f"disk {state.disk_used * 100:.0f} % full")
    if seen.clock_ahead is not None:
        words.append("clock in sync")
    return ", ".join(filter(None, words))


def _broker_findings(seen: BrokerFacts, *, names_are_here: bool) -> Iterator[Finding]:
    subject, state = f"broker {seen.name}", seen.state
    for address, dialled in seen.dialled.items():
        if dialled.outcome is not ConnectOutcome.OPEN:
            yield _unreachable_finding(subject, address, dialled, names_are_here=names_are_here)
    if state is None:
        return
    if state.problem is not None:
        step = "see its log"
        if _ACCESS_DENIED.search(state.problem):
            step = "give --access-key and --secret-key, or ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY"
        yield _fail(subject, f"its port is open and it does not report its state ({state.problem})", step)
        return
    if 0 not in state.addresses:
        yield _fail(
            subject, "it has no master, only replicas: messages can be read and not sent", "start its master again"
        )
    if seen.may_write is False:
        yield _fail(
            subject,
            "it rejects messages: its brokerPermission does not allow writes",
            f"allow them: steelyard broker config set {seen.name} brokerPermission=6",
        )
    if state.version and (number := _release_number(state.version)) and number < _OLDEST_TESTED_RELEASE:
        yield _warn(subject, f"it is of release {format_release(state.version)}", "brokers before 4.9 are not tested")
    if state.reports is not None:
        yield from _store_findings(subject, state.reports)
    yield from _disk_findings(subject, state.disk_used)
    yield from _clock_findings(subject, seen.clock_ahead)


def _unreachable_finding(subject: str, address: str, attempt: ConnectProbe, *, names_are_here: bool) -> Finding:
    host = address.rpartition(":")[0]
    if _is_loopback(host) and not names_are_here:
        return _fail(
            subject,
            f"it gives clients the address {address}, which on every machine is that machine itself",
            _FIX_BROKER_IP,
        )
    if attempt.outcome is ConnectOutcome.REFUSED:
        return _fail(
            subject,
            f"nothing listens at {address} (connection refused): it is down, or was a moment ago",
            "start it; name servers forget a broker that is gone after two minutes",
        )
    if attempt.outcome in (ConnectOutcome.TIMED_OUT, ConnectOutcome.UNREACHABLE) and _is_private(host):
        return _fail(
            subject,
            f"it gives clients the address {address}, in a private network such as Docker's, which cannot be "
            f"reached from here ({attempt.why})",
            f"{_FIX_BROKER_IP}; with Docker publish its port too",
        )
    return _fail(
        subject,
        f"{address} cannot be reached from here ({attempt.why})",
        f"see whether it is up and a firewall lets the port through; if the address is wrong, {_FIX_BROKER_IP}",
    )


def _store_findings(subject: str, reports: BrokerReports) -> Iterator[Finding]:
    if reports.refusal is not None:
        yield _fail(
            subject,
            f"it rejects messages: {reports.refusal}",
            "free space on its disk, or check the disk; see its log",
        )
    if reports.loss is not None:
        yield _fail(subject, reports.loss, "inspect its directory: steelyard store verify DIR")


def _disk_findings(subject: str, used: float | None) -> Iterator[Finding]:
    if used is None or used < _DISK_WARN:
        return
    make_room = "free space, shorten retention (fileReservedTime), or use a larger disk"
    full = f"its disk is {used * 100:.0f} % full"
    if used >= _DISK_FAIL:
        yield _fail(subject, f"{full}: from 90 % on brokers reject messages", make_room)
    else:
        yield _warn(subject, f"{full}: from 75 % on Apache's brokers delete old messages before their time", make_room)


def _clock_findings(subject: str, ahead: timedelta | None) -> Iterator[Finding]:
    if ahead is None or abs(ahead) < _CLOCK_WARN:
        return
    which = "ahead of" if ahead > timedelta(0) else "behind"
    sentence = f"its clock is {abs(ahead).total_seconds():,.0f} s {which} this machine's"
    step = "use NTP on both: message times, delays and resets by time use the broker's clock"
    yield _fail(subject, sentence, step) if abs(ahead) >= _CLOCK_FAIL else _warn(subject, sentence, step)


def _release_number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _is_private(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_private
    except ValueError:
        return False


_STUCK_AFTER = timedelta(minutes=1)
"""A message that waits longer while nothing moves is not just next in line."""
_MAX_NAMED = 3


def diagnose_topics(topics: Sequence[TopicSummary] | None) -> Iterator[Finding]:
    """Yield findings about users' topics: each has queues, and can be written to and read."""
    if topics is None:
        return
    users = [topic for topic in topics if topic.kind is TopicKind.USERS]
    bad = [finding for topic in users for finding in _topic_findings(topic)]
    yield from bad
    if not users:
        yield _ok(
            "topics", "there is none yet; the first message of a topic creates it, or: steelyard topic create NAME"
        )
    elif not bad:
        yield _ok("topics", f"{pluralize(len(users), 'topic')}, with queues to write and to read")


def _topic_findings(topic: TopicSummary) -> Iterator[Finding]:
    subject = f"topic {topic.name}"
    if not topic.brokers:
        yield _warn(
            subject,
            "name servers know it, and no broker that can be reached has it",
            f"see whether its broker is down; if it is gone for good: steelyard topic delete {topic.name}",
        )
    elif not topic.queues:
        yield _fail(
            subject, "it has no queues to read", f"give it some: steelyard topic add-queues {topic.name} --to 8"
        )
    elif not topic.permission & Permission.WRITE:
        yield _warn(
            subject,
            "it cannot be written to",
            f"if that is not wanted: steelyard topic set {topic.name} --may read-write",
        )
    elif not topic.permission & Permission.READ:
        yield _warn(
            subject, "it cannot be read", f"if that is not wanted: steelyard topic set {topic.name} --may read-write"
        )


def diagnose_groups(groups: Sequence[GroupHealthFacts], now: datetime) -> Iterator[Finding]:
    """Yield findings about each group: members, queues that are stuck, dead letters, and what looks wrong."""
    for each in groups:
        found = list(_group_findings(each, now))
        yield from found or [_ok(f"group {each.view.group}", _group_summary(each))]


def _group_summary(seen: GroupHealthFacts) -> str:
    view = seen.view
    lag = f"a lag of {pluralize(view.lag, 'message')}" if view.lag else "no lag"
    members = pluralize(len(view.members), "member") if view.members else "no member"
    return f"{members} online, {pluralize(len(view.queues), 'queue')}, {lag}"


def _group_findings(seen: GroupHealthFacts, now: datetime) -> Iterator[Finding]:
    view = seen.view
    subject, names = f"group {view.group}", short_names(view.owned())
    if not view.members and view.lag:
        yield _warn(
            subject,
            f"no member is online, with a lag of {pluralize(view.lag, 'message')}",
            "start its consumers; if they run, check their group and name servers",
        )
    for finding in view.findings:
        yield _warning_finding(subject, view.group, finding, shorten_ids(finding.message, names))
    stuck = {queue: long for queue, long in seen.still.items() if long >= _STUCK_AFTER}
    if stuck:
        longest = max(stuck.values()).total_seconds()
        owners = sorted({each.owner for each in view.queues if each.queue in stuck and each.owner})
        queues = ", ".join(str(queue) for queue in list(stuck)[:_MAX_NAMED])
        more = f" and {len(stuck) - _MAX_NAMED} more" if len(stuck) > _MAX_NAMED else ""
        # A slow handler looks the same, so this is no error.
        yield _warn(
            subject,
            f"{queues}{more} did not move for some seconds, and their oldest message has waited for "
            f"{format_duration(longest)}",
            f"see what the handlers of {shorten_ids(', '.join(owners[:_MAX_NAMED]), names)} wait for: "
            f"steelyard group explain {view.group}",
        )
    if seen.dead:
        last = (
            f", the last {format_duration((now - seen.died_at).total_seconds())} ago"
            if seen.died_at is not None
            else ""
        )
        yield _warn(
            subject,
            f"it has {pluralize(seen.dead, 'dead letter')}{last}",
            f"see why: steelyard dead-letters ls {view.group}",
        )
    for note in view.notes:
        yield _warn(subject, shorten_ids(note, names))


def _warning_finding(subject: str, group: str, finding: Finding, sentence: str) -> Finding:
    what, _, step = sentence.rpartition("; ")
    if not what:
        what, step = sentence, ""
    if finding.severity is Severity.WARNING:
        return _warn(subject, what, step)
    return _fail(subject, what, step or f"see who has what: steelyard group explain {group}")


def diagnose(environment: LocalEnvironment, seen: ClusterFacts) -> list[Finding]:
    """Return all findings."""
    is_reached = any(each.works for each in seen.name_servers)
    found = [
        *diagnose_environment(environment, is_reached=is_reached),
        *diagnose_name_servers(seen.name_servers),
        *diagnose_brokers(seen.brokers, seen.name_servers),
        *diagnose_topics(seen.topics),
        *diagnose_groups(seen.groups, seen.at),
        *(_fail("group", what.rstrip("."), step) for what, step in seen.not_there),
        *(_warn("not checked", sentence) for sentence in seen.left_out),
    ]
    if seen.brokers and not any(each.is_reachable for each in seen.brokers):
        found.append(
            _fail(
                "brokers",
                "name servers answer, and none of their brokers can be reached from here",
                "see above; until then nothing can be sent or received",
            )
        )
    return found


def exit_code_of(findings: Iterable[Finding], seen: ClusterFacts) -> ExitCode:
    """Return the exit code: 5 if no name server works, 1 if something is wrong, else 0."""
    if not any(each.works for each in seen.name_servers):
        return ExitCode.UNREACHABLE
    return ExitCode.FAILED if any(each.severity is Severity.ERROR for each in findings) else ExitCode.DONE
