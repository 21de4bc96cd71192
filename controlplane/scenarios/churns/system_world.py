"""The world of the churn of all systems: a whole cluster, and the systems beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.scenarios.engine.option import Option

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.setting import Setting

Tree = dict[str, Any]

AUTOSCALER, DESCHEDULER, KUEUE = "cluster-autoscaler", "descheduler", "kueue"
GROUP: Final = "spare"
GROUP_LABEL: Final = "example.com/group"
BESIDE: Final[Mapping[str, tuple[str, ...]]] = {
    "nothing": (),
    AUTOSCALER: (AUTOSCALER,),
    DESCHEDULER: (DESCHEDULER,),
    KUEUE: (KUEUE,),
    "everything": (DESCHEDULER, AUTOSCALER, KUEUE),
}
"""The systems beside the control plane, by the value of the option."""
SOUND_PLUGINS: Final = (
    "RemovePodsViolatingNodeTaints",
    "RemovePodsViolatingInterPodAntiAffinity",
)
"""Plugins of the Descheduler that evict only what the scheduler's filters refuse where it is."""
CONTROLLERS: Final = (
    "statefulset",
    "daemonset",
    "job",
    "garbagecollector",
    "disruption",
    "podgc",
    "horizontalpodautoscaling",
    "resourcequota",
)
"""Controllers besides the standard ones."""

SYSTEMS = Option(
    "systems",
    choices=tuple(BESIDE),
    varied=True,
    help="The systems that run beside the control plane.",
)


def beside(setting: Setting) -> tuple[str, ...]:
    """Return the systems of a run."""
    return BESIDE[setting[SYSTEMS.key]]


def build(setting: Setting) -> ClusterConfig:
    """A whole cluster with kubelets and controllers, and the systems of the run."""
    from attrs import evolve

    from controlplane.cluster import ClusterConfig
    from controlplane.controllers.common.selection import STANDARD

    config = ClusterConfig(
        nodes=setting.nodes(),
        enabled_controllers=(*STANDARD, *CONTROLLERS),
        kubelet_events=False,
    )
    for name in beside(setting):
        config = evolve(config, **_ADDED[name](config))
    return config


def sound_policy() -> Tree:
    """Return a policy whose evicted pods the scheduler does not place on the same node again."""
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [
            {
                "name": "sound",
                "pluginConfig": [
                    {"name": "DefaultEvictor", "args": {"nodeFit": True}},
                    *({"name": name} for name in SOUND_PLUGINS),
                ],
                "plugins": {"deschedule": {"enabled": [*SOUND_PLUGINS]}},
            }
        ],
    }


def _with_descheduler(config: ClusterConfig) -> Tree:
    from controlplane.api.times import SECOND
    from controlplane.descheduler.controller import descheduler_of
    from controlplane.descheduler.policy import policy_of

    found = descheduler_of(policy_of(sound_policy()), interval_ns=30 * SECOND)
    return {"own_controllers": (*config.own_controllers, found)}


def _with_autoscaler(config: ClusterConfig) -> Tree:
    from controlplane.autoscaler.cloud.file import node_groups_of
    from controlplane.autoscaler.loops.adding import cloud_of
    from controlplane.autoscaler.process.controller import autoscaler_of

    group = {
        "name": GROUP,
        "maxSize": 3,
        "size": 0,
        "provisionTime": "15s",
        "provisionJitter": "4s",
        "template": {
            "metadata": {"labels": {GROUP_LABEL: GROUP}},
            "status": {"capacity": {"cpu": "4", "memory": "8Gi"}},
        },
        "failures": [{"type": "Refused", "count": 1, "explored": True}],
    }
    flags = {
        "max-node-provision-time": "2m",
        "scale-down-delay-after-add": "20s",
        "scale-down-unneeded-time": "40s",
    }
    content = node_groups_of({"flags": flags, "nodeGroups": [group]}, "system-churn")
    return {
        "own_controllers": (*config.own_controllers, autoscaler_of(content)),
        "additions": (*config.additions, cloud_of(content.groups)),
    }


def _with_kueue(config: ClusterConfig) -> Tree:
    from controlplane.kueue.api.installation import installation
    from controlplane.kueue.api.webhook_configurations import HOST
    from controlplane.kueue.config import load
    from controlplane.kueue.loops.webhook import webhook_of
    from controlplane.kueue.process.controller import kueue_of

    settings = load(None)
    return {
        "own_controllers": (*config.own_controllers, kueue_of(settings)),
        "webhook_servers": {**config.webhook_servers, HOST: webhook_of(load(None))},
        "installed": (*config.installed, *installation(settings)),
        "track_fields": True,
    }


_ADDED: Final[Mapping[str, Callable[[ClusterConfig], Tree]]] = {
    DESCHEDULER: _with_descheduler,
    AUTOSCALER: _with_autoscaler,
    KUEUE: _with_kueue,
}
