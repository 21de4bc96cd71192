"""The scheduling framework: statuses, extension points, and the runtime that drives plugins.

Plugins of users import from here, under the names of k8s.io/kube-scheduler/framework where it has one:

    from controlplane.scheduler.framework import CycleState, FilterPlugin, NodeInfo, Pod, Status, unschedulable

Names are imported when they are first asked for. Events that wake pods are in the module `events`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.custom import CustomKind
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.framework.interface import (
        MAX_NODE_SCORE,
        MIN_NODE_SCORE,
        SKIP,
        BindPlugin,
        Code,
        EnqueueExtensions,
        FilterPlugin,
        NormalizeScorePlugin,
        PermitPlugin,
        Plugin,
        PostBindPlugin,
        PostFilterPlugin,
        PostFilterResult,
        PreBindPlugin,
        PreEnqueuePlugin,
        PreFilterPlugin,
        PreFilterResult,
        PreScorePlugin,
        QueueSortPlugin,
        ReservePlugin,
        ScorePlugin,
        Status,
        unschedulable,
    )
    from controlplane.scheduler.framework.notified import PodHandler
    from controlplane.scheduler.state.node_info import NodeInfo

__all__ = [
    "BindPlugin",
    "Code",
    "CustomKind",
    "CycleState",
    "EnqueueExtensions",
    "FilterPlugin",
    "Handle",
    "MAX_NODE_SCORE",
    "MIN_NODE_SCORE",
    "NodeInfo",
    "NormalizeScorePlugin",
    "PermitPlugin",
    "Plugin",
    "Pod",
    "PodHandler",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "QueueSortPlugin",
    "ReservePlugin",
    "SKIP",
    "ScorePlugin",
    "Status",
    "unschedulable",
]

_ELSEWHERE = {
    "CustomKind": "controlplane.scheduler.framework.custom",
    "CycleState": "controlplane.scheduler.framework.cycle_state",
    "Handle": "controlplane.scheduler.framework.handle",
    "NodeInfo": "controlplane.scheduler.state.node_info",
    "Pod": "controlplane.api.pod",
    "PodHandler": "controlplane.scheduler.framework.notified",
}
"""The module that defines each public name outside the module `interface`."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = _ELSEWHERE.get(name, "controlplane.scheduler.framework.interface")
    return getattr(import_module(module), name)
