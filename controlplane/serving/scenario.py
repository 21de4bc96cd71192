"""The scenario of `controlplane serve`: what files say, in a whole cluster that others use from outside."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from attrs import evolve

from controlplane.errors import UsageError
from controlplane.scenarios import manifest_run as files
from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Scenario
from controlplane.serving.webhook_services import checked, hosts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.tree import Tree
    from controlplane.apiserver.storage.store import Store
    from controlplane.cluster import Cluster, ClusterConfig
    from controlplane.scenarios.engine.setting import Setting

NO_LIMIT = 1 << 62
_AGO = re.compile(r"now(?:-(\d{1,9})([smhd]))?")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
NODES = "/registry/minions/"
"""The prefix of Nodes in a store."""
MEMORY = "memory"


def _epoch(text: str) -> int:
    """Nanoseconds since 1970, whole seconds, of a time as RFC 3339, of now, or of so long ago (now-30d)."""
    from controlplane.api.times import SECOND, parse_time

    ago = _AGO.fullmatch(text)
    if ago:
        past = int(ago[1] or 0) * _UNITS[ago[2] or "s"]
        return max(0, time.time_ns() // SECOND - past) * SECOND
    try:
        return parse_time(text) // SECOND * SECOND
    except ValueError:
        raise ValueError("a time like 2026-01-01T00:00:00Z, now, or now-30d") from None


def make(config: ClusterConfig, **options: Any) -> Cluster:
    """A cluster whose API server keeps what clients outside expect. Raises UsageError for a full disk."""
    from controlplane.apiserver.storage.store import StoreFullError
    from controlplane.serving.session import ServedCluster

    try:
        return ServedCluster(config, **options)
    except StoreFullError as error:
        assert config.store is not None
        config.store.close()
        text = "the disk is full: the store has no room for what an API server writes at its start"
        raise UsageError(f"{getattr(config.store, 'path', 'store')}: {text}") from error


def build(setting: Setting) -> ClusterConfig:
    """As for files, over the store that --store names. Clients may ask for devices at any time."""
    from controlplane.kubelet.node.devices import Devices

    config = files.build(setting)
    config = evolve(
        config,
        device_drivers=config.device_drivers or Devices(),
        webhook_services=hosts(setting["webhook_service"]),
        joining_nodes=True,
        old_versions=setting["old_versions"],
    )
    if setting["simulator"]:
        config = with_simulator(config, setting)
    if setting["store"] == MEMORY:
        return config
    state = getattr(setting, "store_state", "")
    store: Store
    if state:  # a replay
        from controlplane.apiserver.storage.store_state import restored

        store = restored(state)
    else:
        from controlplane.apiserver.storage.durable_store import open_store

        store = open_store(setting["store"])
    return evolve(config, store=store, nodes=_still_there(config.nodes or (), store))


def with_simulator(config: ClusterConfig, setting: Setting) -> ClusterConfig:
    """The cluster as kube-scheduler-simulator has it.

    The scheduler says what its plugins answered in annotations of pods, and can be restarted with another
    configuration. Pods need no service accounts, which no export has.
    """
    from controlplane.scheduler.config import user_plugins
    from controlplane.serving.simulator.restarting import RESTARTER, Restarted, run

    registry = config.scheduler_plugins or user_plugins.registry_with(setting["scheduler_plugin"])

    def add(cluster: Any) -> None:
        restarted = Restarted(cluster.schedulers, registry, cluster.scheduler_configuration)
        cluster.world.experimenter(RESTARTER, run, restarted)

    return evolve(
        config,
        explain_scheduling=True,
        scheduler_plugins=registry,
        service_accounts=False,
        additions=(*config.additions, add),
    )


def _still_there(given: Sequence[Tree], store: Store) -> Sequence[Tree]:
    """The nodes of files and options that a store still has; all of them for a store without nodes.

    What was deleted in an earlier session does not come back. Other Nodes of the store, and those that no kubelet has
    registered yet, get kubelets as those that clients create.
    """
    entries = store.keyspace(NODES).entries.values()
    if not entries:
        return given
    registered = {
        tree["metadata"]["name"]
        for tree in (entry.object.tree for entry in entries)
        if ((tree.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion")
    }
    return [each for each in given if each["metadata"]["name"] in registered]


EPOCH = Option(
    "epoch",
    type=int,
    convert=_epoch,
    metavar="TIME",
    help="Wall time at which virtual time begins: now, a time, or now-30d, so that time may run ahead for 30 days.",
)
STORE = Option(
    "store",
    default=MEMORY,
    metavar="memory|sqlite:FILE",
    help="Where objects live; in a file every acknowledged write survives, and a later session goes on from it.",
)
WEBHOOK_SERVICE = Option(
    "webhook-service",
    many=True,
    default=(),
    convert=checked,
    metavar="NAME.NAMESPACE=HOST:PORT",
    help="Where the service of a webhook is; webhooks that are not named are not called. Repeatable.",
)
OLD_VERSIONS = Option(
    "old-versions",
    type=bool,
    default=False,
    help="Serve v1beta1 of policy, batch and rbac, too, which ended by 1.25, for operators of that time.",
)
SIMULATOR = Option(
    "simulator",
    type=bool,
    default=False,
    help="Answer the HTTP API of kube-scheduler-simulator, too, and write what scheduler plugins said to the pods'"
    " annotations.",
)
SCENARIO = Scenario(
    "serve",
    title="a whole cluster at a pace, used from outside",
    workload=files.workload,
    build=build,
    prepare=files.prepare,
    options=(files.FILES, files.MAX_PODS, EPOCH, STORE, WEBHOOK_SERVICE, OLD_VERSIONS, SIMULATOR),
    defaults=files.WHOLE,
    told={**files.TOLD, "epoch": "now"},
    live=True,
    make=make,
    livelock_limit=files.LIVELOCK_LIMIT,
    step_limit=NO_LIMIT,
)
