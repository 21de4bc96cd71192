"""The pod template hash in names of replica sets: FNV-1a 32 over the template, as a safe string.

Upstream hashes a Go dump of the template (pkg/util/hash, controller.ComputeHash). Here the
template's canonical JSON is hashed: the hash has upstream's form and changes exactly when the
template does, but is not upstream's number.
"""

from __future__ import annotations

import json
from typing import Any

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_OFFSET = 2166136261
_PRIME = 16777619


def fnv1a_32(data: bytes) -> int:
    """FNV-1a, 32 bit."""
    value = _OFFSET
    for byte in data:
        value = ((value ^ byte) * _PRIME) & 0xFFFFFFFF
    return value


def safe_encode(text: str) -> str:
    """Replace each character so that the string spells no word. Upstream: apimachinery util/rand SafeEncodeString."""
    return "".join(ALPHABET[ord(char) % len(ALPHABET)] for char in text)


def template_hash(template: dict[str, Any], collision_count: int | None) -> str:
    """The hash of a pod template; a collision count makes another one."""
    data = json.dumps(template, sort_keys=True, separators=(",", ":")).encode()
    if collision_count is not None:
        data += collision_count.to_bytes(8, "little")
    return safe_encode(str(fnv1a_32(data)))
