"""Who speaks, by the first bytes of what is no answer: a web server, one that wants TLS, or something unheard of."""

from steelyard.client.checkup.facts import ServerKind

__all__ = ["who_speaks"]

_ALERT = b"\x15\x03"
_SETTINGS = 4
_GO_AWAY = 7


def who_speaks(heard: bytes, *, hung_up: bool) -> ServerKind:
    r"""Say what kind of server answers like this.

    >>> who_speaks(b"HTTP/1.1 400 Bad Request\r\n", hung_up=True).value
    'an HTTP server'
    >>> who_speaks(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00", hung_up=False).value
    'an HTTP/2 or gRPC server'
    >>> who_speaks(b"", hung_up=True).value
    'a server that hangs up'
    """
    if not heard:
        return ServerKind.HANGS_UP if hung_up else ServerKind.MUTE
    if heard.startswith(b"HTTP/") or heard.lstrip().lower().startswith((b"<!doctype", b"<html")):
        return ServerKind.HTTP
    if heard.startswith(_ALERT):
        return ServerKind.TLS
    # A frame of HTTP/2 on the line itself: its first one is settings, or a goodbye to who did not say hello.
    if len(heard) >= 9 and heard[3] in (_SETTINGS, _GO_AWAY) and heard[5:9] == bytes(4):
        return ServerKind.HTTP2
    return ServerKind.UNKNOWN
