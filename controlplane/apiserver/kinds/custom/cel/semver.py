"""Semantic versions."""

from __future__ import annotations

import re

from attrs import frozen

from controlplane.apiserver.kinds.custom.cel.syntax import CelError

__all__ = ["Semver", "is_semver", "read_semver"]

_FORM = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


@frozen(order=False)
class Semver:
    """A version; a pre-release comes before its release."""

    major: int
    minor: int
    patch: int
    pre: tuple[tuple[int, int, str], ...] = ()

    def _key(self) -> tuple[int, int, int, bool, tuple[tuple[int, int, str], ...]]:
        return (self.major, self.minor, self.patch, not self.pre, self.pre)

    def __lt__(self, other: Semver) -> bool:
        return self._key() < other._key()

    def __gt__(self, other: Semver) -> bool:
        return self._key() > other._key()


def _normal(text: str) -> str:
    """With a prefix `v` gone, missing parts as zeros, and no leading zeros."""
    text = text.removeprefix("v")
    core, sign, rest = re.match(r"([^-+]*)([-+]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    parts = core.split(".")
    parts += ["0"] * (3 - len(parts))
    return ".".join(part.lstrip("0") or "0" for part in parts) + sign + rest


_DIGITS = 20
"""Digits of the largest number of 64 bits, which is the largest that a part of a version can be."""


def read_semver(text: str, normalize: bool = False) -> Semver:
    """The version that a text names. CelError."""
    match = _FORM.fullmatch(_normal(text) if normalize else text)
    wrong = CelError("Semver parse error during conversion from string: invalid version")
    if match is None:
        raise wrong
    numbers = [*match.groups()[:3], *filter(str.isdigit, (match[4] or "").split("."))]
    if any(len(number) > _DIGITS for number in numbers):
        raise wrong
    parts = tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part)
        for part in (match[4] or "").split(".") if part
    )  # fmt: skip
    return Semver(int(match[1]), int(match[2]), int(match[3]), parts)


def is_semver(text: str, normalize: bool = False) -> bool:
    """Whether a text names a version."""
    try:
        read_semver(text, normalize)
    except CelError:
        return False
    return True
