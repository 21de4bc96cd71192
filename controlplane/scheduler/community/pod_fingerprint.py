"""The fingerprint of a set of pods, by which a node tells which pods its report counts.

Formula: xxh64 of the ascending xxh64 hashes of the pods; see github.com/k8stopologyawareschedwg/podfingerprint v0.2.2.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

__all__ = ["fingerprint", "xxh64"]

_PREFIX: Final = "pfp0v001"
_MASK: Final = (1 << 64) - 1
_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_P4: Final = 0x85EBCA77C2B2AE63
_P5: Final = 0x27D4EB2F165667C5


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of pods, given as namespace and name in any order."""
    hashes = sorted(xxh64(name.encode(), xxh64(space.encode())) for space, name in pods)
    return f"{_PREFIX}{xxh64(b''.join(struct.pack('<Q', each) for each in hashes)):016x}"


def _turned(value: int, bits: int) -> int:
    value &= _MASK
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _round(lane: int, word: int) -> int:
    return _turned(lane + word * _P2, 31) * _P1 & _MASK


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the 64-bit xxHash of bytes."""
    at, size = 0, len(data)
    if size >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while at + 32 <= size:
            words = struct.unpack_from("<4Q", data, at)
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += 32
        total = sum(_turned(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            total = ((total ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        total = seed + _P5
    return _finished(total + size & _MASK, data[at:])


def _finished(total: int, rest: bytes) -> int:
    at = 0
    while at + 8 <= len(rest):
        (word,) = struct.unpack_from("<Q", rest, at)
        total = (_turned(total ^ _round(0, word), 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= len(rest):
        (half,) = struct.unpack_from("<I", rest, at)
        total = (_turned(total ^ (half * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in rest[at:]:
        total = _turned(total ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    total = (total ^ (total >> 33)) * _P2 & _MASK
    total = (total ^ (total >> 29)) * _P3 & _MASK
    return total ^ (total >> 32)
