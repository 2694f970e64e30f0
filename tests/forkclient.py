"""Stands for a process of the fork server: hands over streams and directory, passes signals on, ends as that one ends.

It is started in place of Python, hundreds of times: whatever it imports is paid for as often.
"""

import json
import os
import signal
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SOL_SOCKET, socket
from types import FrameType

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def _main(path: str, words: list[str]) -> int:
    connection = socket(AF_UNIX)
    connection.connect(path)
    wish = json.dumps({"words": words, "environment": dict(os.environ)}).encode()
    handles = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2, os.open(".", os.O_RDONLY)))
    connection.sendmsg([len(wish).to_bytes(4, "big")], [(SOL_SOCKET, SCM_RIGHTS, handles)])
    connection.sendall(wish)

    def pass_on(number: int, _: FrameType | None) -> None:
        try:
            connection.send(bytes([number]))
        except OSError:
            return  # it has just ended

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    # Whoever reads what it writes, or writes what it reads, sees the end of the other one alone.
    os.closerange(0, 3)
    code = int.from_bytes(connection.recv(4), "big", signed=True)
    if code < 0:
        if -code in _PASSED_ON:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1], sys.argv[2:]))
