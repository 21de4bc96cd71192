"""FNV-1a, the hash of pod templates and of the kubelet's checkpoint files, and FNV-1."""

from __future__ import annotations

from typing import Final

_OFFSET: Final = 2166136261


def fnv1a_32(data: bytes) -> int:
    """FNV-1a, 32 bit.

    Four bytes at a time: a byte only meets the lowest bits, so the rest is cut off less often.
    """
    value = _OFFSET
    whole = len(data) & ~3
    four = iter(data[:whole])
    for a, b, c, d in zip(four, four, four, four, strict=True):
        value = ((((value ^ a) * 16777619 ^ b) * 16777619 ^ c) * 16777619 ^ d) * 16777619
        value &= 0xFFFFFFFF
    for byte in data[whole:]:
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def fnv1_32(data: bytes) -> int:
    """FNV-1, 32 bit: as FNV-1a, but multiplied first. The names of controller revisions are made with it."""
    value = _OFFSET
    for byte in data:
        value = value * 16777619 & 0xFFFFFFFF ^ byte
    return value


_OFFSET_128: Final = 0x6C62272E07BB014262B821756295C58D
_PRIME_128: Final = 0x0000000001000000000000000000013B
_MASK_128: Final = (1 << 128) - 1


def fnv1a_128(data: bytes, before: int = _OFFSET_128) -> int:
    """FNV-1a, 128 bit: the order of the ports of an EndpointSlice follows from it.

    `before` is the hash of what comes before the data: a beginning that many texts share is hashed once. The rest is
    cut off after two bytes, which costs less than cutting it off after each.
    """
    value = before
    whole = len(data) & ~1
    two = iter(data[:whole])
    for a, b in zip(two, two, strict=True):
        value = ((value ^ a) * _PRIME_128 ^ b) * _PRIME_128 & _MASK_128
    for byte in data[whole:]:
        value = (value ^ byte) * _PRIME_128 & _MASK_128
    return value


def fnv1a_64(data: bytes) -> int:
    """FNV-1a, 64 bit."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value
