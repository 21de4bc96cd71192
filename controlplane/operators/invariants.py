"""Invariants of a user, asked at each revision of a run: functions `check_...(objects)` of Python files.

`objects` are the trees of what is compared, by resource and `namespace/name`; the answer is None, or one line that says
what is wrong.
"""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING, Any

from controlplane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from controlplane.api.tree import Tree
    from controlplane.operators.observation import Change

    Check = Callable[[dict[tuple[str, str], Tree]], str | None]

__all__ = ["checks_of", "violations_of"]


def checks_of(files: Iterable[str]) -> list[tuple[str, Check]]:
    """Return the functions of files, by name. Raises UsageError."""
    found: list[tuple[str, Check]] = []
    for file in files:
        try:
            names: dict[str, Any] = runpy.run_path(file)
        except Exception as error:
            raise UsageError(f"{file}: {type(error).__name__}: {error}") from None
        checks = [
            (name, each)
            for name, each in names.items()
            if name.startswith("check_") and callable(each)
        ]
        if not checks:
            raise UsageError(f"{file}: expected functions check_...(objects)")
        found += checks
    return found


def violations_of(
    changes: Sequence[Change], checks: Sequence[tuple[str, Check]]
) -> tuple[str, ...]:
    """Return the first violation of each invariant, with the revision. Raises UsageError for one that raises."""
    state: dict[tuple[str, str], Tree] = {}
    found: dict[str, str] = {}
    for change in changes if checks else ():
        if change.tree is None:
            state.pop((change.resource, change.name), None)
        else:
            state[change.resource, change.name] = change.tree
        for name, check in checks:
            if name in found:
                continue
            try:
                wrong = check(state)
            except Exception as error:
                raise UsageError(f"{name}: {type(error).__name__}: {error}") from None
            if wrong:
                found[name] = f"{name}: {wrong} (revision {change.revision})"
    return tuple(found.values())
