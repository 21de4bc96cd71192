"""FNV-1a, the hash of pod templates and of the kubelet's checkpoint files."""

from __future__ import annotations

_OFFSET = 2166136261
_PRIME = 16777619


def fnv1a_32(data: bytes) -> int:
    """FNV-1a, 32 bit."""
    value = _OFFSET
    for byte in data:
        value = ((value ^ byte) * _PRIME) & 0xFFFFFFFF
    return value
