"""DefaultBinder: posts a Binding that carries the pod's UID.

Upstream: `pkg/scheduler/framework/plugins/defaultbinder/default_binder.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scheduler.framework import names
from controlplane.scheduler.framework.interface import ApiWrite, BindPlugin

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.cycle_state import CycleState


class DefaultBinder(BindPlugin):
    """Binds through the API server. The UID makes a recreated pod of the same name refuse it."""

    name = names.DEFAULT_BINDER

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> ApiWrite | None:
        """The Binding to post."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node_name},
        }
        return ApiWrite("create", "pods", pod.namespace, pod.name, body, subresource="binding")
