import sys
import zlib
from collections.abc import Callable
from functools import cache
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import LimitExceeded, MalformedRecord, MissingExtra, ProtocolError
from steelyard.wire import limits
from steelyard.wire.compression import compress, decompress, with_compression
from steelyard.wire.sysflag import TRANSACTION_BITS, Compression, TransactionFlag, compression_of, with_transaction
from steelyard.wire.zstd import zstd
from tests.compressions import EACH, INSTALLED, needs_lz4
from tests.fuzzing import mutations, rounds
from tests.memory import assert_peak_below

_MIB = 1 << 20
_kinds = st.sampled_from(INSTALLED)
_every_kind = pytest.mark.parametrize("kind", EACH)


def _open(body: bytes, kind: Compression, limit: int = limits.DECOMPRESSED_BYTES) -> bytes:
    return decompress(body, with_compression(0, kind), limit=limit)


def _zlib_bomb(mib: int) -> bytes:
    """Zeros, mib MiB of them: one compressed MiB, again and again."""
    stream = zlib.compressobj(9)
    first = stream.compress(bytes(_MIB)) + stream.flush(zlib.Z_FULL_FLUSH)
    again = stream.compress(bytes(_MIB)) + stream.flush(zlib.Z_FULL_FLUSH)
    return first + again * (mib - 1)


def _lz4_bomb(mib: int) -> bytes:
    import lz4.frame

    stream = lz4.frame.LZ4FrameCompressor(block_linked=False)
    start, zeros = stream.begin(), bytes(_MIB)
    block = stream.compress(zeros)
    return start + block * mib + bytes(4)


def _zstd_bomb(mib: int) -> bytes:
    stream, zeros = zstd.ZstdCompressor(level=5), bytes(_MIB)
    return b"".join([stream.compress(zeros) for _ in range(mib)]) + stream.flush()


def _zstd_runs(mib: int) -> bytes:
    """Zeros as tersely as zstd can say them: 4 bytes for 128 KiB."""
    run = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    return b"\x28\xb5\x2f\xfd\x00\x58" + run * (8 * mib)


@given(st.binary(max_size=2000), _kinds, st.integers(1, 50))
def test_what_was_compressed_comes_out_again(body: bytes, kind: Compression, times: int) -> None:
    assert _open(compress(body * times, kind), kind) == body * times


@_every_kind
def test_a_body_of_exactly_the_limit_comes_out(kind: Compression) -> None:
    body = bytes(limits.DECOMPRESSED_BYTES)
    assert _open(compress(body, kind), kind) == body
    with pytest.raises(LimitExceeded) as caught:
        _open(compress(body + b"\x00", kind), kind)
    assert str(caught.value) == f"body: what comes out of a {kind.name} body exceeds 16777216"


@_every_kind
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 1_114_112, 1_114_113])
def test_limits_are_exact_around_the_sizes_of_blocks(kind: Compression, size: int) -> None:
    body = compress(b"x" * size, kind)
    assert len(_open(body, kind, limit=size)) == size
    if size:
        with pytest.raises(LimitExceeded):
            _open(body, kind, limit=size - 1)


@pytest.mark.parametrize(
    ("kind", "bomb"),
    [
        (Compression.ZLIB, _zlib_bomb),
        pytest.param(Compression.LZ4, _lz4_bomb, marks=needs_lz4),
        (Compression.ZSTD, _zstd_bomb),
        (Compression.ZSTD, _zstd_runs),
    ],
)
def test_a_bomb_of_one_gibibyte_stops_at_the_limit(kind: Compression, bomb: Callable[[int], bytes]) -> None:
    small, large = bomb(2), bomb(1024)
    assert decompress_start(small, kind) == bytes(_MIB)
    assert len(large) < 8 * _MIB

    def open_it() -> None:
        with pytest.raises(LimitExceeded):
            _open(large, kind)

    assert_peak_below(limits.DECOMPRESSED_BYTES + 8 * _MIB, open_it)


def decompress_start(bomb: bytes, kind: Compression) -> bytes:
    """Show that a bomb is one: its first MiB comes out."""
    if kind is Compression.ZLIB:
        return zlib.decompressobj().decompress(bomb, _MIB)
    if kind is Compression.LZ4:
        import lz4.frame

        return lz4.frame.decompress_chunk(lz4.frame.create_decompression_context(), bomb, max_length=_MIB)[0]
    return zstd.ZstdDecompressor().decompress(bomb, _MIB)


@_every_kind
def test_only_one_layer_is_opened(kind: Compression) -> None:
    inner = compress(bytes(8 * _MIB), kind)
    assert _open(compress(inner, kind), kind) == inner


@_every_kind
def test_a_second_stream_or_garbage_behind_the_first_is_damage(kind: Compression) -> None:
    body = compress(b"steelyard", kind)
    for behind in (body, b"x", bytes(1), bytes(1000)):
        with pytest.raises(
            MalformedRecord, match=f"the {kind.name} stream cannot be opened: something follows its end"
        ):
            _open(body + behind, kind)


@_every_kind
def test_a_stream_cut_at_any_byte_is_damage(kind: Compression) -> None:
    for body in (b"", b"steelyard" * 100, bytes(range(256)) * 3):
        whole = compress(body, kind)
        for size in range(len(whole)):
            with pytest.raises(MalformedRecord, match=f"the {kind.name} stream cannot be opened"):
                _open(whole[:size], kind)


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_zstd_without_a_declared_size_is_opened_too(pieces: list[bytes]) -> None:
    stream = zstd.ZstdCompressor(level=5)
    body = b"".join([stream.compress(piece, stream.FLUSH_BLOCK) for piece in pieces]) + stream.flush()
    assert _open(body, Compression.ZSTD) == b"".join(pieces)
    for cut in (body[:-1], body[:-3]):
        with pytest.raises(MalformedRecord):
            _open(cut, Compression.ZSTD)
    with pytest.raises(MalformedRecord):
        _open(body + b"\x00", Compression.ZSTD)


def test_a_zstd_frame_that_promises_too_much_is_refused_before_memory_is_taken() -> None:
    magic = b"\x28\xb5\x2f\xfd"
    huge_window = magic + b"\x00" + b"\xa0" + b"\x01\x00\x00"
    huge_content = magic + b"\xe0" + (1 << 60).to_bytes(8, "little") + b"\x01\x00\x00"
    lying_content = magic + b"\xc0\x00" + (1 << 60).to_bytes(8, "little") + b"\x01\x00\x00"

    def open_all() -> None:
        for frame in (huge_window, huge_content):
            with pytest.raises(LimitExceeded, match="window of a ZSTD body is"):
                _open(frame, Compression.ZSTD)
        with pytest.raises(MalformedRecord, match="0 bytes came out, it promised 1152921504606846976"):
            _open(lying_content, Compression.ZSTD)

    assert_peak_below(_MIB, open_all)


def test_a_zstd_window_may_be_as_large_as_the_limit_and_no_larger() -> None:
    head, end = b"\x28\xb5\x2f\xfd\x00", b"\x01\x00\x00"
    assert _open(head + bytes([14 << 3]) + end, Compression.ZSTD) == b""
    for window in (14 << 3 | 1, 15 << 3, 21 << 3):
        with pytest.raises(LimitExceeded, match="window of a ZSTD body is"):
            _open(head + bytes([window]) + end, Compression.ZSTD)


def test_a_zstd_frame_to_be_skipped_is_no_body() -> None:
    for behind in (b"", compress(b"steelyard", Compression.ZSTD)):
        with pytest.raises(MalformedRecord, match="it does not begin as one"):
            _open(b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc" + behind, Compression.ZSTD)


def test_a_zstd_frame_that_needs_a_dictionary_is_damage() -> None:
    with pytest.raises(MalformedRecord, match="the ZSTD stream cannot be opened"):
        _open(b"\x28\xb5\x2f\xfd\x01\x58\x07\x01\x00\x00", Compression.ZSTD)


@needs_lz4
def test_an_lz4_frame_that_promises_too_much_takes_no_memory() -> None:
    import lz4.frame

    frame = lz4.frame.compress(b"steelyard", block_linked=False)

    def open_all() -> None:
        for size in (1 << 40, (1 << 64) - 1, 8):
            with pytest.raises(MalformedRecord):
                _open(frame[:6] + size.to_bytes(8, "little") + frame[14:], Compression.LZ4)

    assert_peak_below(_MIB, open_all)


@needs_lz4
def test_lz4_blocks_are_independent_because_java_reads_no_others() -> None:
    assert compress(bytes(300_000), Compression.LZ4)[4] & 0x20


@needs_lz4
def test_linked_lz4_blocks_are_opened_all_the_same() -> None:
    import lz4.frame

    body = bytes(range(256)) * 2000
    assert _open(lz4.frame.compress(body, block_linked=True), Compression.LZ4) == body


def test_flags_are_those_that_java_sets() -> None:
    assert [hex(with_compression(0, kind)) for kind in (Compression.ZLIB, Compression.LZ4, Compression.ZSTD)] == [
        "0x301",
        "0x101",
        "0x201",
    ]
    assert compress(b"x" * 100, Compression.ZLIB) == zlib.compress(b"x" * 100, 5)
    assert with_compression(0x8, Compression.ZLIB) == 0x309


def test_an_old_flag_without_a_kind_means_zlib() -> None:
    assert decompress(zlib.compress(b"old"), 0x001) == b"old"


@pytest.mark.parametrize("number", [4, 5, 6, 7])
def test_an_unknown_kind_is_damage(number: int) -> None:
    with pytest.raises(MalformedRecord, match=f"names the compression {number}; known are"):
        compression_of(number << 8 | 1)


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.sampled_from(TransactionFlag))
def test_a_transactions_state_is_changed_in_place(sys_flag: int, state: TransactionFlag) -> None:
    changed = with_transaction(sys_flag, state)
    assert changed & TRANSACTION_BITS == state
    assert changed & ~0xC == sys_flag & ~0xC


@pytest.mark.parametrize(
    ("kind", "package", "says", "extra"),
    [
        pytest.param(Compression.LZ4, "lz4.frame", "LZ4 bodies need", "lz4", marks=needs_lz4),
        (Compression.ZSTD, "steelyard.wire.zstd", "zstd bodies need", "fast"),
    ],
)
def test_a_missing_package_is_one_sentence(
    kind: Compression, package: str, says: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = compress(b"x", kind)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=says):
        compress(b"x", kind)
    with pytest.raises(MissingExtra, match=says) as caught:
        _open(body, kind)
    assert caught.value.extra == extra


@cache
def _corpus(kind: Compression) -> list[bytes]:
    bodies = (b"", b"steelyard" * 30, bytes(range(256)) * 2, bytes(70_000))
    more = {Compression.ZLIB: _zlib_bomb, Compression.LZ4: _lz4_bomb, Compression.ZSTD: _zstd_runs}
    return [*(compress(body, kind) for body in bodies), more[kind](32)[:4096]]


@pytest.mark.fuzz
@_every_kind
def test_broken_streams_are_opened_or_refused_within_the_limit(kind: Compression) -> None:
    limit = 256 * 1024
    for broken in islice(mutations(_corpus(kind), seed=kind), rounds()):
        try:
            body = _open(broken, kind, limit=limit)
        except ProtocolError:
            continue
        assert len(body) <= limit
