"""Levels and versions that a namespace's labels ask for. Upstream: pod-security-admission/api/helpers.go."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from attrs import evolve, frozen

from controlplane.apiserver.schema.field_errors import FieldError, invalid

__all__ = ["LATEST", "NOTHING", "PRIVILEGED", "Level", "Standards", "standards_of"]

LEVELS: Final = ("privileged", "baseline", "restricted")
PRIVILEGED: Final = "privileged"
LATEST: Final = 1 << 30
"""Stands for the latest version."""
_PREFIX: Final = "pod-security.kubernetes.io/"
_VERSION: Final = re.compile(r"v1\.([0-9]|[1-9][0-9]{1,5})")


@frozen(order=False)
class Level:
    """A level as of a version 1.`minor`."""

    name: str = PRIVILEGED
    minor: int = LATEST

    @property
    def strictness(self) -> int:
        """The strictness of the level: 0 has no requirements."""
        return LEVELS.index(self.name)

    def __str__(self) -> str:
        return f"{self.name}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"


@frozen
class Standards:
    """The levels that are enforced, noted for the audit log and warned of."""

    enforce: Level = Level()
    audit: Level = Level()
    warn: Level = Level()

    @property
    def ask_nothing(self) -> bool:
        """Every pod meets the standards."""
        return not (self.enforce.strictness or self.audit.strictness or self.warn.strictness)


NOTHING: Final = Standards()
"""The standards of namespaces without such labels."""


def standards_of(labels: Mapping[str, str]) -> tuple[Standards, list[FieldError]]:
    """Return the standards of the labels and the errors in them: with an error the strictest is enforced."""
    for key in labels:
        if key.startswith(_PREFIX):
            break
    else:
        return NOTHING, []
    errors: list[FieldError] = []
    found: dict[str, Level] = {}
    plain_enforce = False
    for mode in ("enforce", "audit", "warn"):
        level = Level()
        given = labels.get(f"{_PREFIX}{mode}")
        if given is not None:
            if given in LEVELS:
                level = evolve(level, name=given)
                plain_enforce = plain_enforce or mode == "enforce"
            else:
                level = evolve(level, name="restricted" if mode == "enforce" else PRIVILEGED)
                errors.append(_wrong(mode, given, f"must be one of {', '.join(LEVELS)}"))
        version = labels.get(f"{_PREFIX}{mode}-version")
        if version is not None and version != "latest":
            match = _VERSION.fullmatch(version)
            if match is None:
                errors.append(_wrong(f"{mode}-version", version, 'must be "latest" or "v1.x"'))
            else:
                level = evolve(level, minor=int(match[1]))
        found[mode] = level
    enforce, warn = found["enforce"], found["warn"]
    if plain_enforce and f"{_PREFIX}warn" not in labels and enforce.strictness > warn.strictness:
        minor = warn.minor if f"{_PREFIX}warn-version" in labels else enforce.minor
        warn = Level(enforce.name, minor)
    return Standards(enforce, found["audit"], warn), errors


def _wrong(label: str, value: str, text: str) -> FieldError:
    return invalid(f"metadata.labels[{_PREFIX}{label}]", value, text)
