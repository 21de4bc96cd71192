"""The status of a StatefulSet. Upstream: statefulset/stateful_set_control.go, stateful_set_utils.go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define

from controlplane.controllers.common.pods import is_available
from controlplane.controllers.workloads.statefulset.pods import (
    ROLLING_UPDATE,
    is_created,
    is_running_and_ready,
    is_terminating,
    revision_of,
    wanted,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.api.apps import StatefulSet
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree


@define
class Status:
    """Counters and revisions, while they are being worked out."""

    observed_generation: int
    current_revision: str
    update_revision: str
    collision_count: int
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0

    def count(self, found: StatefulSet, pods: Iterable[Pod], now: int) -> None:
        """Count these pods."""
        names = self.current_revision, self.update_revision
        self.replicas = self.ready_replicas = self.available_replicas = 0
        self.current_replicas = self.updated_replicas = 0
        for pod in pods:
            self.replicas += is_created(pod)
            if is_running_and_ready(pod):
                self.ready_replicas += 1
                self.available_replicas += is_available(pod, found.spec.min_ready_seconds, now)
            if is_created(pod) and not is_terminating(pod):
                self.current_replicas += revision_of(pod) == names[0]
                self.updated_replicas += revision_of(pod) == names[1]

    def complete_rolling_update(self, found: StatefulSet) -> None:
        """Once all replicas are updated and ready, the update revision is the current one."""
        replicas = wanted(found)
        counts = self.updated_replicas, self.ready_replicas, self.replicas
        if found.spec.update_strategy.type == ROLLING_UPDATE and set(counts) == {replicas}:
            self.current_replicas = self.updated_replicas
            self.current_revision = self.update_revision

    def differs(self, found: StatefulSet) -> bool:
        """Return whether it has to be written: collisions alone are no reason, nor a generation that would go back."""
        old = found.status
        return self.observed_generation > old.observed_generation or (
            self.replicas,
            self.current_replicas,
            self.ready_replicas,
            self.updated_replicas,
            self.available_replicas,
            self.current_revision,
            self.update_revision,
        ) != (
            old.replicas,
            old.current_replicas,
            old.ready_replicas,
            old.updated_replicas,
            old.available_replicas,
            old.current_revision,
            old.update_revision,
        )

    def tree(self) -> Tree:
        """The status as it is sent."""
        optional = {
            "observedGeneration": self.observed_generation,
            "readyReplicas": self.ready_replicas,
            "currentReplicas": self.current_replicas,
            "updatedReplicas": self.updated_replicas,
            "currentRevision": self.current_revision,
            "updateRevision": self.update_revision,
        }
        return {
            "replicas": self.replicas,
            "availableReplicas": self.available_replicas,
            "collisionCount": self.collision_count,
            **{name: value for name, value in optional.items() if value},
        }
