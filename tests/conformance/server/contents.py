"""The smallest contents of each kind."""

import base64
import struct
import zlib
from typing import Any


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# One red pixel, and no sound at all.
PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(b"\x00\xff\x00\x00"))
    + chunk(b"IEND", b"")
).decode()
WAV = base64.b64encode(
    b"RIFF" + struct.pack("<I", 36) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8) + b"data" + bytes(4)
).decode()


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def image() -> dict[str, Any]:
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


def audio() -> dict[str, Any]:
    return {"type": "audio", "data": WAV, "mimeType": "audio/wav"}


def embedded(uri: str, said: str, kind: str = "text/plain") -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": said}}
