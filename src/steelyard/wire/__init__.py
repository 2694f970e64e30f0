"""Bytes to values and back: frames, commands, headers, bodies, stored records. No sockets, no clocks."""
