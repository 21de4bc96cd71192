"""Selection of devices by expressions: what the scheduler asks and the API server's expression language answers."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from controlplane.api.tree import Tree

__all__ = ["DeviceSelectorError", "SelectDevice", "Selection"]


class DeviceSelectorError(Exception):
    """An expression that does not compile (`compiling`), or fails for a device. `cost` is as in `Selection`."""

    def __init__(self, text: str, *, compiling: bool, cost: int = 0) -> None:
        super().__init__(text)
        self.compiling = compiling
        self.cost = cost


class Selection(NamedTuple):
    """The selection of a device, and the cost units that the answer took."""

    selected: bool
    cost: int = 0


class SelectDevice(Protocol):
    """Answers expressions."""

    def __call__(self, expression: str, driver: str, device: Tree, /) -> Selection:
        """Return whether an expression selects a device of a driver. DeviceSelectorError."""
