"""Members that a broker lists although the line they were on is closed: left by a heartbeat executed after the end.

Apache's broker keeps members by line, believes a heartbeat whenever a thread comes to it, and takes a line that closed
out once. So a member that dies right after a heartbeat may be listed for two minutes more, and whoever asks it is told
that its line is closed. That alone proves nothing: the same member may be there on another line, and the dead line was
asked only because it was found first. What proves it is the order of three things:

- a list shows the id once;
- the question finds its line closed;
- a later list, after the time of a blip, still shows the id once.

Were it alive on another line, then either the first list would show two, or the dead line joined in between, and then
the second one would: it takes two minutes to be forgotten. Whoever came back meanwhile on a new line has begun anew.
"""

from collections.abc import Sequence

__all__ = ["Phantoms"]


class Phantoms:
    """What is suspected and known of one broker's list.

    >>> phantoms = Phantoms()
    >>> phantoms.found_closed("c1", ["c1", "c2"], now_ms=0), phantoms.found_closed("c2", ["c2", "c2"], now_ms=0)
    (True, False)
    >>> [sorted(phantoms.after(ids, now_ms, grace_ms=300)) for ids, now_ms in ((["c1"], 100), (["c1"], 300), ([], 400))]
    [[], ['c1'], []]
    """

    def __init__(self) -> None:
        self._since: dict[str, int] = {}

    def found_closed(self, member: str, listed: Sequence[str], now_ms: int) -> bool:
        """Note that a member's line is closed, if the last list shows it once; say whether that is news."""
        if member in self._since or listed.count(member) != 1:
            return False
        self._since[member] = now_ms
        return True

    def spoke(self, member: str) -> bool:
        """Take note that a member answered, or may be slow to; say whether it was suspected."""
        return self._since.pop(member, None) is not None

    def after(self, listed: Sequence[str], now_ms: int, grace_ms: int) -> frozenset[str]:
        """Take the next list; return who is a phantom by it."""
        self._since = {member: at_ms for member, at_ms in self._since.items() if listed.count(member) == 1}
        return frozenset(member for member, at_ms in self._since.items() if now_ms - at_ms >= grace_ms)
