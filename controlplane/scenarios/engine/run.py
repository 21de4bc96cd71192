"""One run, as workloads and invariants see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors import World
    from controlplane.api.object import Object
    from controlplane.cluster import Cluster
    from controlplane.scenarios.engine.histories import History
    from controlplane.scenarios.engine.setting import Setting


class Run:
    """A cluster to look at, the setting it was made with, and `notes`.

    In the notes, users and invariants of one run leave each other word; nothing of it reaches the
    cluster.
    """

    def __init__(self, setting: Setting, cluster: Cluster) -> None:
        self.setting = setting
        self.cluster = cluster
        self.notes: dict[str, Any] = {}
        self.history: History | None = None
        """The answers that users got, if an invariant needs them."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The value of every option, by key."""
        return self.setting.options

    @property
    def world(self) -> World:
        """The world of the run."""
        return self.cluster.world

    def objects(self, prefix: str) -> list[Object]:
        """All stored objects of one resource, "/registry/pods/" say, read past every cache."""
        return self.cluster.objects(prefix)
