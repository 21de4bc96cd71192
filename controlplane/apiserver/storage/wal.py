"""Detection of damage to a write-ahead log of SQLite that loses acknowledged writes.

SQLite takes the first frame that does not fit its checksum for the end of the log: such is the end of a log
that was being written when the power failed, and the lost write was never acknowledged. A frame damaged
later looks the same, and all later frames are dropped silently, though they had been acknowledged. But every
commit waits until its frames are on the disk before the next one begins; so two commits behind the end
prove damage. (In the last commit of all, damage and a write that never ended cannot be distinguished.)

The format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

__all__ = ["damage"]

HEADER: Final = 32
FRAME: Final = 24
BIG_ENDIAN_SUMS: Final = 0x377F0683
MAGIC: Final = 0x377F0682
WORD: Final = 0xFFFFFFFF


def damage(log: bytes) -> str:
    """Return the error of the log, "" if there is none but perhaps a last commit that never ended."""
    if len(log) < HEADER or not any(log[:HEADER]):
        return ""
    fields = np.frombuffer(log[:HEADER], ">u4")
    order = ">u4" if int(fields[0]) == BIG_ENDIAN_SUMS else "<u4"
    size = int(fields[2])
    whole = (
        int(fields[0]) | 1 == BIG_ENDIAN_SUMS
        and size >= 512
        and size & (size - 1) == 0
        and _sums(log[: HEADER - 8], order)[0] == (int(fields[6]), int(fields[7]))
    )
    if not whole:
        return "the head of its write-ahead log does not match its checksum"
    count = (len(log) - HEADER) // (FRAME + size)
    if not count:
        return ""
    frames = np.frombuffer(log, np.uint8, count * (FRAME + size), HEADER).reshape(count, -1)
    heads = np.ascontiguousarray(frames[:, :FRAME]).view(">u4").astype(np.uint64)
    summed = np.concatenate((frames[:, :8], frames[:, FRAME:]), axis=1)
    parts = _parts(np.ascontiguousarray(summed).view(order).astype(np.uint64))
    sums = (int(fields[6]), int(fields[7]))
    power = _coefficients((size + 8) // 8)[1]
    salts = (int(fields[4]), int(fields[5]))
    bad, commits = 0, 0  # the first frame that does not fit, and commits behind it
    for number in range(count):
        _, commit, *salted, first, second = (int(each) for each in heads[number])
        if tuple(salted) != salts:
            bad = bad or number + 1
            continue
        sums = _after(power, sums, parts[number])
        if not bad and sums != (first, second):
            bad = number + 1
        if bad:
            commits += bool(commit)
            sums = (first, second)
    return f"frame {bad} of its write-ahead log does not match its checksum" if commits > 1 else ""


def _sums(data: bytes, order: str) -> list[tuple[int, int]]:
    words = np.frombuffer(data, order).astype(np.uint64).reshape(1, -1)
    return _parts(words)


def _parts(rows: Any) -> list[tuple[int, int]]:
    """Return the amounts that each row of words adds to the running sums."""
    coefficients, _ = _coefficients(rows.shape[1] // 2)
    found = rows @ coefficients
    return [(int(first) & WORD, int(second) & WORD) for first, second in found]


def _after(
    power: tuple[int, int, int, int], sums: tuple[int, int], part: tuple[int, int]
) -> tuple[int, int]:
    """The running sums behind a frame."""
    a, b, c, d = power
    first, second = sums
    return (a * first + b * second + part[0]) & WORD, (c * first + d * second + part[1]) & WORD


@cache
def _coefficients(pairs: int) -> tuple[Any, tuple[int, int, int, int]]:
    """Return the coefficients of each word of the pairs in both sums, and those of the former sums.

    One pair (x, y) turns the sums (s, t) into s' = s + t + x and t' = s' + t + y.
    """
    made = np.zeros((2 * pairs, 2), np.uint64)
    a, b, c, d = 1, 0, 0, 1  # what comes behind, as a matrix
    for pair in reversed(range(pairs)):
        made[2 * pair] = (a + b) & WORD, (c + d) & WORD
        made[2 * pair + 1] = b, d
        # One step before: (s, t) -> (s + t, s + 2t)
        a, b, c, d = (a + b) & WORD, (a + 2 * b) & WORD, (c + d) & WORD, (c + 2 * d) & WORD
    return made, (a, b, c, d)
