"""ImageLocality: prefer nodes that have the pod's images already.

Upstream: `pkg/scheduler/framework/plugins/imagelocality/image_locality.go`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from controlplane.scheduler.framework import names, signers
from controlplane.scheduler.framework.column_forms import NodeLocalScore
from controlplane.scheduler.framework.handle import Handle

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.columns.columns import Columns
    from controlplane.scheduler.framework.column_forms import Scores
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.state.node_info import NodeInfo

_MIB = 1024 * 1024
MIN_THRESHOLD = 23 * _MIB
MAX_CONTAINER_THRESHOLD = 1000 * _MIB


class ImageLocality(NodeLocalScore):
    """Points by the size of present images, scaled by how widely each is spread."""

    name = names.IMAGE_LOCALITY
    keyed_by_spec = True

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """0..100."""
        total = len(self._handle.snapshot)
        present = 0
        if node.image_states:
            for name in _images(pod):
                state_of = node.image_states.get(name)
                if state_of is not None:
                    size, nodes = state_of
                    present += int(float(size) * (float(nodes) / float(total)))
        containers = len(pod.spec.init_containers) + len(pod.spec.containers)
        most = MAX_CONTAINER_THRESHOLD * containers
        if present < MIN_THRESHOLD:
            present = MIN_THRESHOLD
        elif present > most:
            present = most
        return 100 * (present - MIN_THRESHOLD) // (most - MIN_THRESHOLD)

    def score_key(self, state: CycleState, pod: Pod) -> Hashable:
        """Images, and how many containers the thresholds are for."""
        count = len(pod.spec.init_containers) + len(pod.spec.containers)
        return tuple(_images(pod)), count

    def score_all(self, state: CycleState, pod: Pod, columns: Columns) -> Scores:
        """Only nodes that have any image at all are looked at."""
        out = np.zeros(columns.size, np.int64)
        for row in np.flatnonzero(columns.has_images).tolist():
            out[row] = self.score(state, pod, columns.infos[row])
        return out

    def sign_pod(self, pod: Pod) -> signers.Fragments:
        """Names of the images of containers, sorted."""
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        images = {normalized_name(each.image): None for each in containers}
        return ((signers.IMAGES, signers.text(sorted(images))),)


def _images(pod: Pod) -> list[str]:
    spec = pod.spec
    out = [normalized_name(c.image) for c in spec.init_containers]
    out += [normalized_name(c.image) for c in spec.containers]
    if spec.volumes:
        for volume in pod.tree["spec"]["volumes"]:
            image = volume.get("image")
            if image is not None:
                out.append(normalized_name(image.get("reference") or ""))
    return out


def normalized_name(name: str) -> str:
    """The name with `:latest` unless it has a tag or digest."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
