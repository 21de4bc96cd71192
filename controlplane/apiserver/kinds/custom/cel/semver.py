"""Semantic versions.

Upstream: apiserver pkg/cel/library/semverlib.go, and github.com/blang/semver for what is refused.
"""

from __future__ import annotations

from attrs import frozen

from controlplane.api.validation import quote
from controlplane.apiserver.kinds.custom.cel.tree import CelError

__all__ = ["Semver", "is_semver", "read_semver"]

_NUMBERS = frozenset("0123456789")
_NAMES = _NUMBERS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")


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
    """With a prefix `v` gone, missing parts as zeros, and no leading zeros. CelError."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            bare = part.lstrip("0")
            parts[index] = bare if bare[:1] in _NUMBERS else f"0{bare}"
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise CelError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _number(text: str) -> int:
    """A number of 64 bits. CelError."""
    if not text or len(text) > 20 or int(text) >> 64:
        why = "value out of range" if text else "invalid syntax"
        raise CelError(f"strconv.ParseUint: parsing {quote(text)}: {why}")
    return int(text)


def _core(name: str, text: str) -> int:
    """One of the three numbers. CelError."""
    if not _NUMBERS.issuperset(text):
        raise CelError(f"Invalid character(s) found in {name} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise CelError(f"{name.capitalize()} number must not contain leading zeroes {quote(text)}")
    return _number(text)


def _pre(text: str) -> tuple[int, int, str]:
    """A part of a pre-release, as it is ordered: numbers come first. CelError."""
    if not text:
        raise CelError("Prerelease is empty")
    if _NUMBERS.issuperset(text):
        if len(text) > 1 and text[0] == "0":
            why = "Numeric PreRelease version must not contain leading zeroes"
            raise CelError(f"{why} {quote(text)}")
        return 0, _number(text), ""
    if not _NAMES.issuperset(text):
        raise CelError(f"Invalid character(s) found in prerelease {quote(text)}")
    return 1, 0, text


def read_semver(text: str, normalize: bool = False) -> Semver:
    """The version that a text names, made a full one first if it may be `normalize`d. CelError."""
    if normalize:
        text = _normal(text)
    if not text:
        raise CelError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelError("No Major.Minor.Patch elements found")
    major, minor = _core("major", parts[0]), _core("minor", parts[1])
    rest, plus, build = parts[2].partition("+")
    patch_text, dash, pre_text = rest.partition("-")
    patch = _core("patch", patch_text)
    pre = tuple(map(_pre, pre_text.split("."))) if dash else ()
    for part in build.split(".") if plus else ():
        if not part:
            raise CelError("Build meta data is empty")
        if not _NAMES.issuperset(part):
            raise CelError(f"Invalid character(s) found in build meta data {quote(part)}")
    return Semver(major, minor, patch, pre)


def is_semver(text: str, normalize: bool = False) -> bool:
    """True for a text that names a version."""
    try:
        read_semver(text, normalize)
    except CelError:
        return False
    return True
