"""Declarations: which parts of its actor's memory a step reads and writes.

Searches over partial orders rest on them, and a debug mode (`actors.guard`) checks them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.kernel import Kernel
    from actors.process import Task


class Declarations:
    """The part of a task's context by which a step says what it touches."""

    __slots__ = ("_kernel", "actor", "task")

    def __init__(self, kernel: Kernel, task: Task) -> None:
        self._kernel = kernel
        self.task = task
        self.actor = task.actor.name

    @property
    def is_noted(self) -> bool:
        """Return whether footprints of steps are recorded; ask before preparing an expensive one."""
        return self._kernel.footprint is not None

    def reads(self, *resources: str) -> None:
        """Say that this step reads these parts of the actor's memory, and (with `writes`) nothing else of it.

        A step that says neither is taken to read and write all of it. Searches over partial orders
        rest on this, so leave nothing out.
        """
        footprint = self._kernel.footprint
        if footprint is not None:
            footprint.touched(resources, write=False)

    def writes(self, *resources: str) -> None:
        """Say that this step writes these parts of the actor's memory; see `reads`."""
        footprint = self._kernel.footprint
        if footprint is not None:
            footprint.touched(resources, write=True)

    def touches(self, *resources: str) -> None:
        """`writes` of a library: more may be touched by the caller, which has to declare that itself."""
        footprint = self._kernel.footprint
        if footprint is not None:
            footprint.touched(resources, write=True, declares=False)

    def looks_at(self, *resources: str) -> None:
        """`reads` of a library; see `touches`."""
        footprint = self._kernel.footprint
        if footprint is not None:
            footprint.touched(resources, write=False, declares=False)

    def undeclared(self) -> None:
        """Say that this step runs code that does not say what it touches, whatever else says so."""
        footprint = self._kernel.footprint
        if footprint is not None:
            footprint.blunt()

    def part(self, name: str, *objects: Any, apart: Mapping[str, str] | None = None) -> None:
        """Say which objects are a part of this actor's memory, for the debug check of what steps say.

        Attributes named in `apart` are of other parts, or of none ("") because they do not change.
        """
        guard = self._kernel.guard
        if guard is not None:
            for obj in objects:
                guard.watch(self.actor, name, obj, apart or {})
