"""Uids, name suffixes and draws, made from serial numbers that the world hands out: no entropy, no clock."""

from __future__ import annotations

from hashlib import blake2b

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of generated name suffixes. Upstream: apimachinery util/rand."""
SUFFIX_LENGTH = 5


def _digest(purpose: bytes, serial: int) -> bytes:
    return blake2b(serial.to_bytes(8, "big"), digest_size=16, person=purpose).digest()


def uid(serial: int) -> str:
    """A uid in the form of a version 4 UUID; different serials give different uids."""
    text = _digest(b"uid", serial).hex()
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"


def share(serial: int) -> float:
    """A number from 0 on and below 1, spread evenly over the serials."""
    return int.from_bytes(_digest(b"share", serial)[:6], "big") / (1 << 48)


def suffix(serial: int) -> str:
    """The five characters after a generateName."""
    number = int.from_bytes(_digest(b"suffix", serial), "big")
    letters = []
    for _ in range(SUFFIX_LENGTH):
        number, at = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[at])
    return "".join(letters)
