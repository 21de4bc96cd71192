"""Faults of a driver's calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field, frozen

from controlplane.controllers.storage.csi.messages import OK, CsiReply

BEFORE: Final = "before"
AFTER: Final = "after"


@frozen
class Fault:
    """A fault of calls of a method.

    `count` calls are affected, all if None, after the first `skip` of them. With a `code` that is the answer:
    `when` says whether the driver does its work first. `delay_ns` passes before the work. The call
    hangs until `gate` is opened, before or after the work. `override` is merged into the answer:
    None removes a field, a list edits elements (`$each`, `$index` with `set`, `$reverse`).
    """

    method: str
    count: int | None = None
    skip: int = 0
    code: str = OK
    message: str = ""
    when: str = BEFORE
    delay_ns: int = 0
    gate: str = ""
    override: Mapping[str, Any] = field(factory=dict)


@define
class Faults:
    """The faults in force; the youngest is asked first."""

    _faults: list[Fault] = field(factory=list)
    _left: dict[int, list[int]] = field(factory=dict)
    _next: int = 0
    opened: dict[str, None] = field(factory=dict)

    def add(self, fault: Fault) -> None:
        """Put a fault in force."""
        self._left[len(self._faults)] = [fault.skip, -1 if fault.count is None else fault.count]
        self._faults.append(fault)

    def clear(self) -> None:
        """Take all faults back."""
        self._faults.clear()
        self._left.clear()

    def take(self, method: str) -> Fault | None:
        """The fault of one call of a method, which is counted."""
        for index in range(len(self._faults) - 1, -1, -1):
            fault, left = self._faults[index], self._left[index]
            if fault.method != method or not left[1]:
                continue
            if left[0]:
                left[0] -= 1
                continue
            if left[1] > 0:
                left[1] -= 1
            return fault
        return None


def overridden(reply: CsiReply, override: Mapping[str, Any]) -> CsiReply:
    """An answer with another one merged into it."""
    if not override or reply.code != OK:
        return reply
    return CsiReply(reply.code, reply.message, _merged(reply.response, override))


def _merged(value: Any, change: Any) -> Any:
    if isinstance(change, Mapping) and isinstance(value, Mapping):
        merged = dict(value)
        for key, each in change.items():
            if each is None:
                merged.pop(key, None)
            else:
                merged[key] = _merged(merged.get(key), each)
        return merged
    edit = change[0] if isinstance(change, list) and len(change) == 1 else None
    if isinstance(edit, Mapping) and isinstance(value, list):
        if "$each" in edit:
            return [_merged(each, edit["$each"]) for each in value]
        if "$index" in edit:
            return [
                _merged(each, edit["set"]) if number == edit["$index"] else each
                for number, each in enumerate(value)
            ]
        if "$reverse" in edit:
            return value[::-1]
    return change
