"""Plugins with handlers of their own on informers; each of them is notified at its own pace.

Upstream a plugin adds such handlers when it is made, to the shared informer of pods or to a cache of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from controlplane.scheduler.framework.custom import Tree
from controlplane.scheduler.framework.interface import Plugin

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.effects import Effects


class PodHandler(Plugin):
    """Notified of pods.

    With `assigned_only` it hears of pods with a node: one that is bound is added.
    """

    assigned_only: ClassVar[bool] = False

    @property
    def hears_pods(self) -> bool:
        """Return whether it is to be notified, as its arguments have it."""
        return True

    @property
    def awaited(self) -> bool:
        """Return whether nothing is scheduled before it was told of the pods that there are."""
        return False

    def pod_added(self, pod: Pod) -> None:
        """A pod is there."""

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """A pod changed."""

    def pod_deleted(self, pod: Pod) -> None:
        """A pod is gone."""


class ObjectHandler(Plugin):
    """Notified of the objects of its custom kinds (`Plugin.custom`)."""

    def object_added(self, kind: str, tree: Tree) -> None:
        """An object is there."""

    def object_updated(self, kind: str, old: Tree, new: Tree) -> None:
        """An object changed."""

    def object_deleted(self, kind: str, tree: Tree) -> None:
        """An object is gone."""


class ResyncedPlugin(Plugin):
    """A plugin with a cache that it fills when it is made, and brings up to date in a goroutine of its own."""

    @property
    @abstractmethod
    def resync_period(self) -> int:
        """Return the time between two passes, nanoseconds; 0 if there are none."""

    @property
    @abstractmethod
    def awaits_resync(self) -> bool:
        """Return whether the next pass has something to do."""

    @abstractmethod
    def fill(self) -> Effects[None]:
        """Read what there is, before anything is scheduled."""

    @abstractmethod
    def resync(self) -> Effects[bool]:
        """Make a pass; False if it changed nothing."""
