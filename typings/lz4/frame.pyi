# The part of lz4.frame that wire/compression.py uses; the package ships no type hints.
class LZ4FrameDecompressor:
    eof: bool
    needs_input: bool
    unused_data: bytes | None
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...

def compress(data: bytes) -> bytes: ...
