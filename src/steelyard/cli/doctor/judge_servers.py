"""What name servers and brokers say about why it does not work. Pure: facts in, findings out.

The commonest causes have names of their own: an address inside Docker, a broker's port given as a name server's, a
dashboard's port, TLS on one side only, a clock that is off.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from ipaddress import ip_address

from steelyard.cli.doctor.finding import Finding, look, ok, wrong
from steelyard.cli.frame.counting import counted
from steelyard.client.admin.broker_reports import Reports
from steelyard.client.checkup.facts import BrokerSeen, Dialling, Door, NameServerSeen, ServerKind

__all__ = ["judge_brokers", "judge_name_servers"]

_BROKER_IP = "set brokerIP1 in the broker's configuration to an address that clients reach, and restart it"
_CLOCK_LOOK, _CLOCK_WRONG = timedelta(seconds=5), timedelta(minutes=1)
_DISK_LOOK, _DISK_WRONG = 0.75, 0.90
"""Apache's brokers begin to delete early at the first, and take no messages from the second on."""

_OLDEST = (4, 9)
_ACCESS = re.compile(r"permission|signature|access ?key|\bacl|authenti|authori", re.IGNORECASE)
"""What servers say to somebody they do not know."""

_STRANGERS: Mapping[ServerKind, tuple[str, str]] = {
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
        "it wants lines that are encrypted",
        "say --tls, with --tls-ca FILE if its authority is your own",
    ),
    ServerKind.PLAIN: ("it does not encrypt, and --tls was said", "leave --tls out, or turn TLS on at the server"),
    ServerKind.DISTRUSTED: (
        "its certificate is not trusted",
        "give its authority with --tls-ca FILE, dial it by the name in the certificate, or say --tls-no-verify",
    ),
    ServerKind.WANTS_CERTIFICATE: (
        "an encrypted line comes up there, and it hangs up at once",
        "see whether it wants clients to have certificates of their own, which cannot be given here: let it do without",
    ),
    ServerKind.MUTE: (
        "something takes the line there and never answers",
        "see what listens at that port; a load balancer without a server behind it does so, and a server that hangs",
    ),
    ServerKind.HANGS_UP: (
        "something takes the line there and hangs up at once",
        "see what listens at that port; a load balancer without a server behind it does so",
    ),
    ServerKind.UNKNOWN: (
        "something answers there that does not speak the protocol",
        "see what listens at that port, and give the name server's, mostly 9876",
    ),
}


def judge_name_servers(seen: Sequence[NameServerSeen]) -> Iterator[Finding]:
    """Judge every name server by itself, and whether they tell the same."""
    for each in seen:
        yield _name_server(each)
    working = [each for each in seen if each.works]
    if working:
        yield from _agreement(working)


def _name_server(seen: NameServerSeen) -> Finding:
    about = f"name server {seen.address}"
    host, _, port = seen.address.rpartition(":")
    if seen.no_ip:
        return wrong(
            about,
            f"the name {host} has no address here ({seen.no_ip})",
            "check its spelling, DNS and /etc/hosts; names of containers are known only to other containers",
        )
    if seen.dialled is not None and seen.dialled.door is not Door.OPEN:
        return _shut(about, seen.ips[0] if seen.ips else host, port, seen.dialled)
    if seen.brokers is not None:
        brokers = counted(len(seen.brokers), "broker")
        return ok(about, f"it answers in {seen.took_ms} ms and knows {brokers}")
    what, step = _STRANGERS.get(seen.kind or ServerKind.UNKNOWN, _STRANGERS[ServerKind.UNKNOWN])
    said = " ".join(seen.why.split())
    return wrong(about, f"{what} ({said})" if said else what, step)


def _shut(about: str, ip: str, port: str, dialled: Dialling) -> Finding:
    if dialled.door is Door.REFUSED:
        return wrong(
            about,
            f"nobody listens at port {port} of {ip} (connection refused)",
            "start a name server there, such as: steelyard up; or check host and port",
        )
    if dialled.door is Door.SILENT:
        return wrong(
            about,
            f"{ip} does not answer at port {port} ({dialled.why})",
            "see whether the host is up, and whether a firewall or security group lets the port through",
        )
    if dialled.door is Door.NO_WAY:
        return wrong(
            about, f"this machine knows no way to {ip} ({dialled.why})", "check the network, a VPN, or the address"
        )
    return wrong(about, f"{ip} cannot be dialled at port {port} ({dialled.why})", "check host, port and network")


def _agreement(working: Sequence[NameServerSeen]) -> Iterator[Finding]:
    everybody = sorted({name for each in working for name in each.brokers or ()})
    if not everybody:
        yield wrong(
            "brokers",
            "no broker is registered",
            f"start one with namesrvAddr={';'.join(each.address for each in working)}, or: steelyard up",
        )
    differ = False
    for name in everybody:
        told = {each.address: (each.brokers or {}).get(name) for each in working}
        missing = [address for address, place in told.items() if place is None]
        addresses = {tuple(place.addresses.values()) for place in told.values() if place is not None}
        if missing:
            differ = True
            yield wrong(
                f"broker {name}",
                f"{', '.join(missing)} {'does' if len(missing) == 1 else 'do'} not know it, other name servers do: "
                "what a client sees depends on whom it asks",
                "give the broker all name servers in namesrvAddr, and see whether it reaches them",
            )
        if len(addresses) > 1:
            differ = True
            listed = " and ".join(", ".join(each) for each in sorted(addresses))
            yield wrong(
                f"broker {name}",
                f"name servers tell different addresses of it: {listed}",
                "two brokers may have one name and id: give each a brokerName, or a brokerId, of its own",
            )
    if len(working) > 1 and everybody and not differ:
        yield ok("name servers", f"all {len(working)} tell the same")


def judge_brokers(brokers: Sequence[BrokerSeen], name_servers: Sequence[NameServerSeen]) -> Iterator[Finding]:
    """Judge every broker: its addresses as they are seen from here, how it is, its clock, its disk."""
    are_here = all(_is_loopback(ip) for each in name_servers if each.works for ip in each.ips)
    for each in brokers:
        found = list(_broker(each, names_are_here=are_here))
        yield from found or [ok(f"broker {each.name}", _how(each))]
    versions = sorted({each.state.version for each in brokers if each.state is not None and each.state.version})
    if len(versions) > 1:
        yield look(
            "brokers",
            f"they are of different releases: {', '.join(map(_release, versions))}",
            "fine while an upgrade goes on; then bring all to one",
        )


def _how(seen: BrokerSeen) -> str:
    state = seen.state
    address = next(iter(seen.dialled), "")
    took = f"{address} opens in {seen.dialled[address].took_ms} ms" if address else "it has no address"
    if state is None:
        return took
    words = [took, f"release {_release(state.version)}" if state.version else ""]
    if state.disk_used is not None:
        words.append(f"disk {state.disk_used * 100:.0f} % full")
    if seen.clock_ahead is not None:
        words.append("clock as ours")
    return ", ".join(filter(None, words))


def _broker(seen: BrokerSeen, *, names_are_here: bool) -> Iterator[Finding]:
    about, state = f"broker {seen.name}", seen.state
    for address, dialled in seen.dialled.items():
        if dialled.door is not Door.OPEN:
            yield _unreachable(about, address, dialled, names_are_here=names_are_here)
    if state is None:
        return
    if state.problem is not None:
        step = "see what its log says"
        if _ACCESS.search(state.problem):
            step = "say who you are: --access-key and --secret-key, or ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY"
        yield wrong(about, f"its port is open and it does not tell how it is ({state.problem})", step)
        return
    if 0 not in state.addresses:
        yield wrong(
            about, "it has no master, only replicas: messages can be read and not sent", "start its master again"
        )
    if seen.may_write is False:
        yield wrong(
            about,
            "it takes no messages: its brokerPermission has no right to write",
            f"give it back: steelyard broker config set {seen.name} brokerPermission=6",
        )
    if state.version and (number := _number(state.version)) and number < _OLDEST:
        yield look(
            about, f"it is of release {_release(state.version)}", "nobody has tried brokers before 4.9 with this"
        )
    if state.reports is not None:
        yield from _store(about, state.reports)
    yield from _disk(about, state.disk_used)
    yield from _clock(about, seen.clock_ahead)


def _unreachable(about: str, address: str, dialled: Dialling, *, names_are_here: bool) -> Finding:
    host = address.rpartition(":")[0]
    if _is_loopback(host) and not names_are_here:
        return wrong(
            about,
            f"it tells clients to come to {address}, which is every machine itself: from here that is this one",
            _BROKER_IP,
        )
    if dialled.door is Door.REFUSED:
        return wrong(
            about,
            f"nobody listens at {address} (connection refused): it is down, or it was a moment ago",
            "start it; name servers forget a broker that is gone after two minutes",
        )
    if dialled.door in (Door.SILENT, Door.NO_WAY) and _is_private(host):
        return wrong(
            about,
            f"it tells clients to come to {address}, an address of a private network such as Docker's, which cannot be "
            f"reached from here ({dialled.why})",
            f"{_BROKER_IP}; with Docker publish its port too",
        )
    return wrong(
        about,
        f"{address} cannot be reached from here ({dialled.why})",
        f"see whether it is up and a firewall lets the port through; if the address is wrong, {_BROKER_IP}",
    )


def _store(about: str, reports: Reports) -> Iterator[Finding]:
    if reports.refusal is not None:
        yield wrong(
            about,
            f"it takes no messages: {reports.refusal}",
            "make room on its disk, or look at the disk; see what its log says",
        )
    if reports.loss is not None:
        yield wrong(about, reports.loss, "look into its directory: steelyard store verify DIR")


def _disk(about: str, used: float | None) -> Iterator[Finding]:
    if used is None or used < _DISK_LOOK:
        return
    make_room = "make room, keep messages for less long (fileReservedTime), or give it a larger disk"
    full = f"its disk is {used * 100:.0f} % full"
    if used >= _DISK_WRONG:
        yield wrong(about, f"{full}: from 90 % on brokers take no messages", make_room)
    else:
        yield look(about, f"{full}: from 75 % on Apache's brokers delete old messages before their time", make_room)


def _clock(about: str, ahead: timedelta | None) -> Iterator[Finding]:
    if ahead is None or abs(ahead) < _CLOCK_LOOK:
        return
    which = "ahead of" if ahead > timedelta(0) else "behind"
    sentence = f"its clock is {abs(ahead).total_seconds():,.0f} s {which} this machine's"
    step = "set both by NTP: times of messages, delays and resets by time are by the broker's clock"
    yield wrong(about, sentence, step) if abs(ahead) >= _CLOCK_WRONG else look(about, sentence, step)


def _release(version: str) -> str:
    """Return a release as people write it; servers write V4_9_7."""
    return version.removeprefix("V").replace("_", ".")


def _number(version: str) -> tuple[int, ...]:
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
