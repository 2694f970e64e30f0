"""What a broker puts on every message it takes and on every answer to a send: made once, used for each."""

from steelyard.broker.options import BrokerOptions
from steelyard.model.message import host_digits
from steelyard.wire.message_ids import month_of, unique_key, unique_key_prefix
from steelyard.wire.properties import encode_properties
from steelyard.wire.property_names import CLUSTER, REGION, TRACE_ON

__all__ = ["Stamps"]

_YES = "true"


class Stamps:
    r"""The texts of one broker.

    >>> stamps = Stamps(BrokerOptions(), now_ms=1_700_000_000_000)
    >>> stamps.added
    b'MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02'
    >>> stamps.place_id(1024)
    '7F00000100002A9F0000000000000400'
    """

    def __init__(self, options: BrokerOptions, *, now_ms: int) -> None:
        self.properties = {REGION: options.region, TRACE_ON: _YES, CLUSTER: options.cluster}
        """What each message gets that is not part of a batch."""
        self.added = encode_properties(self.properties)
        """The same as a text, to put behind what a message has."""
        self.region, self.trace = options.region, _YES
        self.on_refusals = {REGION: options.region, TRACE_ON: _YES}
        """Fields of an answer that says no: Java's clients look for them in every answer to a send."""
        self._place = host_digits(options.address)
        self._maker = unique_key_prefix(options.host, options.port, now_ms)
        self._month = month_of(now_ms)
        self._made = 0

    def place_id(self, position: int) -> str:
        """Return the id that a message has by its place in the log."""
        return f"{self._place}{position:016X}"

    def unique_key(self, now_ms: int) -> str:
        """Make the id of a message whose sender gave it none."""
        start_ms, end_ms = self._month
        if not start_ms <= now_ms < end_ms:
            self._month = start_ms, _ = month_of(now_ms)
        self._made += 1
        return unique_key(self._maker, now_ms=now_ms, month_start_ms=start_ms, counter=self._made)
