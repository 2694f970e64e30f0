"""Rules for servers: name servers, what answers in their place, brokers with their disks, clocks and releases.

Facts are what a gatherer could find out; what it did not ask for is None, and no rule finds anything then.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import ip_address

from steelyard.diagnostics import thresholds
from steelyard.model import BrokerAddresses
from steelyard.model.finding import Finding, Severity
from steelyard.model.formatting import format_release


class ConnectOutcome(Enum):
    """The outcome of connecting."""

    OPEN = "open"
    REFUSED = "refused"
    """The host answers, and nothing listens on the port."""
    TIMED_OUT = "silent"
    """No answer: the host is off, or a firewall drops packets."""
    UNREACHABLE = "no way"
    """This machine has no route to that network."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ConnectProbe:
    """The outcome of connecting to an address."""

    outcome: ConnectOutcome
    took_ms: int
    why: str = ""
    """The error of the system, if it is not open."""


class ServerKind(Enum):
    """What answers at an address that was given as a name server's."""

    NAME_SERVER = "a name server"
    BROKER = "a broker"
    STRANGER = "a server of the protocol"
    """It speaks the protocol and is neither of them."""
    HTTP = "an HTTP server"
    HTTP2 = "an HTTP/2 or gRPC server"
    TLS = "a server that wants TLS"
    PLAIN = "a server without TLS"
    DISTRUSTED = "a server whose certificate is not trusted"
    WANTS_CERTIFICATE = "a server that closes TLS connections"
    MUTE = "a server that says nothing"
    HANGS_UP = "a server that hangs up"
    UNKNOWN = "something else"


@dataclass(frozen=True, slots=True)
class NameServerFacts:
    """An address that was given as a name server's; steps that were not reached are None."""

    address: str
    ips: tuple[str, ...] = ()
    no_ip: str = ""
    """Why its host name has no address."""
    dialled: ConnectProbe | None = None
    kind: ServerKind | None = None
    why: str = ""
    """What it sent instead of an answer."""
    took_ms: int = 0
    brokers: Mapping[str, BrokerAddresses] | None = None

    @property
    def works(self) -> bool:
        """Whether it is a name server, and listed its brokers."""
        return self.brokers is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """A broker, or one of its replicas: whether it can be reached from here, and what it reports."""

    name: str
    dialled: Mapping[str, ConnectProbe] = field(default_factory=dict)
    """By address, the master's first; empty where nothing was dialled."""
    problem: str | None = None
    """Why it does not report its state."""
    is_reported: bool = True
    """Whether it was asked, so that the facts below mean something."""
    has_master: bool = True
    version: str = ""
    disk_used: float | None = None
    """The share of its disk that is full, from 0 to 1."""
    refusal: str | None = None
    """Why it rejects messages, as it says."""
    loss: str | None = None
    """What it lost, as it says."""
    clock_ahead_s: float | None = None
    """How far its clock is ahead of ours, within a second or two."""
    may_write: bool | None = None
    """Whether its permission allows writes."""
    answer_ms: int | None = None
    """How long it took to report its state."""

    @property
    def is_reachable(self) -> bool:
        """Whether one of its addresses is open."""
        return any(each.outcome is ConnectOutcome.OPEN for each in self.dialled.values())


@dataclass(frozen=True, slots=True)
class DiskLimits:
    """From which share of a full disk on a finding is a warning, and from which an error."""

    warn: float | None = thresholds.DISK_WARN
    full: float | None = thresholds.DISK_FULL


def ok(subject: str, message: str) -> Finding:
    """Say that something is as it should be."""
    return Finding("ok", message, Severity.OK, subject)


_FIX_BROKER_IP = "set brokerIP1 in the broker's configuration to an address that clients reach, and restart it"
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
    """Yield findings about each name server, and whether they agree; with another one at hand clients go on."""
    working = [each for each in seen if each.works]
    for each in seen:
        yield _name_server_finding(each, Severity.WARNING if working else Severity.ERROR)
    if working:
        yield from _agreement_findings(working)


def _name_server_finding(seen: NameServerFacts, severity: Severity) -> Finding:
    subject = f"name server {seen.address}"
    host, _, port = seen.address.rpartition(":")
    if seen.brokers is not None:
        brokers = f"{len(seen.brokers)} broker{'' if len(seen.brokers) == 1 else 's'}"
        return ok(subject, f"it answers in {seen.took_ms} ms and knows {brokers}")
    if seen.no_ip:
        what = f"the name {host} has no address here ({seen.no_ip})"
        step = "check its spelling, DNS and /etc/hosts; names of containers are known only to other containers"
    elif seen.dialled is not None and seen.dialled.outcome is not ConnectOutcome.OPEN:
        what, step = _connect_failure(seen.ips[0] if seen.ips else host, port, seen.dialled)
    else:
        what, step = _SERVER_KIND_TEXTS.get(seen.kind or ServerKind.UNKNOWN, _SERVER_KIND_TEXTS[ServerKind.UNKNOWN])
        said = " ".join(seen.why.split())
        what = f"{what} ({said})" if said else what
    return Finding(f"name server: {seen.address}", what, severity, subject, step)


def _connect_failure(ip: str, port: str, attempt: ConnectProbe) -> tuple[str, str]:
    match attempt.outcome:
        case ConnectOutcome.REFUSED:
            what = f"nothing listens at port {port} of {ip} (connection refused)"
            return what, "start a name server there, such as: steelyard up; or check host and port"
        case ConnectOutcome.TIMED_OUT:
            what = f"{ip} does not answer at port {port} ({attempt.why})"
            return what, "see whether the host is up, and whether a firewall or security group lets the port through"
        case ConnectOutcome.UNREACHABLE:
            return f"this machine has no route to {ip} ({attempt.why})", "check the network, a VPN, or the address"
    return f"no connection to port {port} of {ip} ({attempt.why})", "check host, port and network"


def _agreement_findings(working: Sequence[NameServerFacts]) -> Iterator[Finding]:
    names = sorted({name for each in working for name in each.brokers or ()})
    if not names:
        yield Finding(
            "no broker",
            "no broker is registered",
            subject="brokers",
            next_step=f"start one with namesrvAddr={';'.join(each.address for each in working)}, or: steelyard up",
        )
    differ = False
    for name in names:
        known = {each.address: (each.brokers or {}).get(name) for each in working}
        missing = [address for address, place in known.items() if place is None]
        addresses = {tuple(place.addresses.values()) for place in known.values() if place is not None}
        if missing:
            differ = True
            yield Finding(
                f"unequal routes: {name}",
                f"{', '.join(missing)} {'does' if len(missing) == 1 else 'do'} not know it, other name servers do: "
                "what a client sees depends on the name server it asks",
                Severity.WARNING,
                subject=f"broker {name}",
                next_step="give the broker all name servers in namesrvAddr, and see whether it reaches them",
            )
        if len(addresses) > 1:
            differ = True
            listed = " and ".join(", ".join(each) for each in sorted(addresses))
            yield Finding(
                f"unequal addresses: {name}",
                f"name servers have different addresses for it: {listed}",
                subject=f"broker {name}",
                next_step="two brokers may have one name and id: give each a brokerName, or a brokerId, of its own",
            )
    if len(working) > 1 and names and not differ:
        yield ok("name servers", f"all {len(working)} agree")


def diagnose_brokers(
    brokers: Sequence[BrokerFacts], *, names_are_here: bool = True, disk: DiskLimits | None = None
) -> Iterator[Finding]:
    """Yield findings about each broker: its addresses as reached from here, state, clock and disk.

    ``names_are_here`` says that name servers run on this machine, where a broker may give its loopback address.
    """
    for each in brokers:
        found = list(_broker_findings(each, disk or DiskLimits(), names_are_here=names_are_here))
        yield from found or [ok(f"broker {each.name}", _broker_summary(each))]
    versions = sorted({each.version for each in brokers if each.version})
    if len(versions) > 1:
        yield Finding(
            "mixed releases",
            f"they are of different releases: {', '.join(map(format_release, versions))}",
            Severity.WARNING,
            "brokers",
            "fine during an upgrade; afterwards run one release",
        )
    if brokers and all(each.dialled and not each.is_reachable for each in brokers):
        yield Finding(
            "no reachable broker",
            "name servers answer, and none of their brokers can be reached from here",
            subject="brokers",
            next_step="see above; until then nothing can be sent or received",
        )


def gone_broker(name: str, ago: str) -> Finding:
    """Report a broker that is not registered any more."""
    return Finding(
        f"gone: {name}",
        f"it was last registered at the name servers {ago}: its messages cannot be read until it is back",
        subject=f"broker {name}",
        next_step="start it; see its log for why it stopped",
    )


def _broker_summary(seen: BrokerFacts) -> str:
    address = next(iter(seen.dialled), "")
    words = [f"{address} opens in {seen.dialled[address].took_ms} ms" if address else "it has no address"]
    if seen.version:
        words.append(f"release {format_release(seen.version)}")
    if seen.disk_used is not None:
        words.append(f"disk {seen.disk_used * 100:.0f} % full")
    if seen.clock_ahead_s is not None:
        words.append("clock in sync")
    return ", ".join(words)


def _broker_findings(seen: BrokerFacts, disk: DiskLimits, *, names_are_here: bool) -> Iterator[Finding]:
    name, subject = seen.name, f"broker {seen.name}"
    for address, dialled in seen.dialled.items():
        if dialled.outcome is not ConnectOutcome.OPEN:
            what, step = _unreachable(address, dialled, names_are_here=names_are_here)
            yield Finding(f"unreachable: {name} {address}", what, subject=subject, next_step=step)
    if not seen.is_reported:
        return
    if seen.problem is not None:
        step = "see whether it hangs or is down, and its log"
        if _ACCESS_DENIED.search(seen.problem):
            step = "give --access-key and --secret-key, or ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY"
        what = f"it does not report its state ({seen.problem})"
        yield Finding(f"silent: {name}", what, subject=subject, next_step=step)
        return
    if not seen.has_master:
        what = "it has no master, only replicas: messages can be read and not sent"
        yield Finding(f"no master: {name}", what, subject=subject, next_step="start its master again")
    if seen.may_write is False:
        yield Finding(
            f"read-only: {name}",
            "it rejects messages: its brokerPermission does not allow writes",
            subject=subject,
            next_step=f"allow them: steelyard broker config set {name} brokerPermission=6",
        )
    number = tuple(int(part) for part in re.findall(r"\d+", seen.version)[:2])
    if number and number < thresholds.OLDEST_TESTED_RELEASE:
        what = f"it is of release {format_release(seen.version)}"
        yield Finding(f"old release: {name}", what, Severity.WARNING, subject, "brokers before 4.9 are not tested")
    if seen.refusal is not None:
        what = f"it rejects messages: {seen.refusal.partition('; ')[0]}"
        step = "free space on its disk, or check the disk; see its log"
        yield Finding(f"rejecting: {seen.name}", what, subject=subject, next_step=step)
    if seen.loss is not None:
        step = "inspect its directory: steelyard store verify DIR"
        yield Finding(f"loss: {name}", seen.loss, subject=subject, next_step=step)
    if seen.answer_ms is not None and seen.answer_ms >= thresholds.SLOW_ANSWER_MS:
        yield Finding(
            f"slow: {name}",
            f"it is slow: it took {seen.answer_ms:,} ms to report its state",
            Severity.WARNING,
            subject,
            "see its disk, its CPU and the network; producers avoid it meanwhile: steelyard producer latency",
            evidence=(("answer_ms", seen.answer_ms),),
        )
    yield from _disk_findings(name, subject, seen.disk_used, disk)
    yield from _clock_findings(name, subject, seen.clock_ahead_s)


def _unreachable(address: str, attempt: ConnectProbe, *, names_are_here: bool) -> tuple[str, str]:
    host = address.rpartition(":")[0]
    if is_loopback(host) and not names_are_here:
        what = f"it gives clients the address {address}, which on every machine is that machine itself"
        return what, _FIX_BROKER_IP
    if attempt.outcome is ConnectOutcome.REFUSED:
        what = f"nothing listens at {address} (connection refused): it is down, or was a moment ago"
        return what, "start it; name servers forget a broker that is gone after two minutes"
    if attempt.outcome in (ConnectOutcome.TIMED_OUT, ConnectOutcome.UNREACHABLE) and _is_private(host):
        what = (
            f"it gives clients the address {address}, in a private network such as Docker's, which cannot be "
            f"reached from here ({attempt.why})"
        )
        return what, f"{_FIX_BROKER_IP}; with Docker publish its port too"
    step = f"see whether it is up and a firewall lets the port through; if the address is wrong, {_FIX_BROKER_IP}"
    return f"{address} cannot be reached from here ({attempt.why})", step


def _disk_findings(name: str, subject: str, used: float | None, limits: DiskLimits) -> Iterator[Finding]:
    is_full = used is not None and limits.full is not None and used >= limits.full
    if used is None or not (is_full or (limits.warn is not None and used >= limits.warn)):
        return
    percent = f"its disk is {used * 100:.0f} % full"
    what = f"{percent}: from 90 % on brokers reject messages"
    if used < thresholds.DISK_FULL:
        what = f"{percent}: from 75 % on Apache's brokers delete old messages before their time"
    yield Finding(
        f"disk: {name}",
        what if used >= thresholds.DISK_WARN else percent,
        Severity.ERROR if is_full else Severity.WARNING,
        subject,
        "free space, shorten retention (fileReservedTime), or use a larger disk",
        evidence=(("disk_used", used),),
    )


def _clock_findings(name: str, subject: str, ahead_s: float | None) -> Iterator[Finding]:
    if ahead_s is None or abs(ahead_s) < thresholds.CLOCK_WARN_S:
        return
    yield Finding(
        f"clock: {name}",
        f"its clock is {abs(ahead_s):,.0f} s {'ahead of' if ahead_s > 0 else 'behind'} this machine's",
        Severity.ERROR if abs(ahead_s) >= thresholds.CLOCK_FAIL_S else Severity.WARNING,
        subject,
        "use NTP on both: message times, delays and resets by time use the broker's clock",
        evidence=(("clock_ahead_seconds", ahead_s),),
    )


def is_loopback(host: str) -> bool:
    """Say whether an address is this machine's own."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _is_private(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_private
    except ValueError:
        return False
