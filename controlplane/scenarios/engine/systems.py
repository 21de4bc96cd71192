"""Systems that run beside the control plane, and their options: what `--with NAME` adds to a cluster.

To add a system, add a row to `SYSTEMS` and its options to `OPTIONS`; modules of a system are imported only for worlds
that have it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, frozen

from controlplane.errors import UsageError
from controlplane.scenarios.engine.option import Option

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controlplane.api.tree import Tree
    from controlplane.autoscaler.cloud.file import NodeGroups
    from controlplane.client.resources import Resource
    from controlplane.cluster import ClusterConfig
    from controlplane.controllers.common.controller import Controller
    from controlplane.descheduler.policy import Policy
    from controlplane.kueue.jobs.generic import GenericJob
    from controlplane.kueue.process.settings import Settings
    from controlplane.kwok.debugging import Debugging
    from controlplane.kwok.files import Files
    from controlplane.scenarios.engine.setting import Setting

    Changes = Mapping[str, Any]
    Installed = Sequence[tuple[Resource[Any], Tree]]


@frozen
class System:
    """One system.

    `options` are its own options, of which `needed` must be given, unless `goes_without` says otherwise; `changes`
    returns the fields of the cluster's configuration that change, and raises UsageError; `installs` returns the objects
    that are there from the start; `waits_s` returns for how many seconds at most it does nothing although it will do
    something. One that `brings_nodes` makes nodes itself: none are made where neither files nor options ask for some.
    """

    changes: Callable[[ClusterConfig, Setting], Changes]
    options: tuple[Option, ...]
    needed: tuple[Option, ...] = ()
    installs: Callable[[Setting], Installed] = lambda _: ()
    brings_nodes: bool = False
    waits_s: Callable[[Setting], float] = lambda _: 0.0
    goes_without: Callable[[Setting], bool] = lambda _: False


def _read_policy(setting: Setting) -> Policy:
    from controlplane.descheduler.policy import load

    return load(Path(setting["descheduler_policy"]), setting["descheduler_plugin"])


def _descheduler(config: ClusterConfig, setting: Setting) -> Changes:
    from controlplane.api.times import SECOND
    from controlplane.descheduler.controller import descheduler_of

    descheduler = descheduler_of(
        setting.parsed["descheduler_policy"],
        interval_ns=round(setting["descheduling_interval"] * SECOND),
        dry_run=setting["descheduler_dry_run"],
        replicas=setting["deschedulers"],
    )
    return {"own_controllers": (*config.own_controllers, descheduler)}


def _read_kueue_config(setting: Setting) -> Any:
    from controlplane.kueue.config import read

    return read(Path(setting["kueue_config"]))


def _kueue_settings(setting: Setting) -> Settings:
    from controlplane.kueue.config import DEFAULT, settings_of

    settings = settings_of(setting.parsed.get("kueue_config") or DEFAULT)
    return replace(settings, custom=setting.parsed.get("kueue_job", ()))


def _read_kueue_jobs(setting: Setting) -> tuple[type[GenericJob], ...]:
    from controlplane.kueue.process.user_jobs import load

    return load(setting["kueue_job"])


def _kueue(config: ClusterConfig, setting: Setting) -> Changes:
    from controlplane.cluster_config import numbered
    from controlplane.kueue.api.webhook_configurations import HOST
    from controlplane.kueue.loops.webhook import webhook_of
    from controlplane.kueue.process.controller import Kueue, kueue_of
    from controlplane.kueue.queues.visibility import group

    # Settings of their own: processes share nothing.
    provisioning = _has_requests(setting)
    replicas: int = setting["kueue_replicas"]
    kueue = kueue_of(
        _kueue_settings(setting), answers=True, provisioning=provisioning, replicas=replicas
    )
    return {
        "own_controllers": (*config.own_controllers, kueue),
        "aggregated": (*config.aggregated, group(*numbered(Kueue.name, replicas))),
        "webhook_servers": {**config.webhook_servers, HOST: webhook_of(_kueue_settings(setting))},
        "installed": (*config.installed, *_kueue_objects(setting)),
        "track_fields": True,
    }


def _has_requests(setting: Setting) -> bool:
    """Return whether the API has ProvisioningRequests, in whichever order the systems are named."""
    return "cluster-autoscaler" in setting["with"] and _provisions(setting)


def _kueue_objects(setting: Setting) -> Installed:
    from controlplane.kueue.api.installation import installation

    return installation(_kueue_settings(setting))


def _read_node_groups(setting: Setting) -> NodeGroups:
    from controlplane.autoscaler.cloud.file import load

    return load(Path(setting["node_groups"]))


def _cluster_autoscaler(config: ClusterConfig, setting: Setting) -> Changes:
    from controlplane.autoscaler.loops.adding import cloud_of
    from controlplane.autoscaler.process.controller import autoscaler_of

    content: NodeGroups = setting.parsed["node_groups"]
    count = setting["cluster_autoscalers"]
    if count > 1 and not content.settings.elects:
        raise UsageError("--cluster-autoscalers: expected the flag leader-elect not to be false")
    return {
        "own_controllers": (*config.own_controllers, autoscaler_of(content, replicas=count)),
        "additions": (*config.additions, cloud_of(content.groups)),
        "installed": (*config.installed, *_autoscaler_kinds(setting)),
    }


def _autoscaler_waits_s(setting: Setting) -> float:
    """The longest of the times that a node is unneeded, not ready, or new before the autoscaler acts on it."""
    from controlplane.api.times import SECOND

    options = setting.parsed["node_groups"].settings.options
    waits = (options.unneeded_time, options.unready_time, options.delay_after_add)
    return float(max(waits) / SECOND)


def _provisions(setting: Setting) -> bool:
    content: NodeGroups = setting.parsed["node_groups"]
    return content.settings.provisioning_requests


def _autoscaler_kinds(setting: Setting) -> Installed:
    from controlplane.autoscaler.capacity.definition import (
        capacity_buffer_definition,
        capacity_quota_definition,
    )
    from controlplane.autoscaler.provisioning.definition import provisioning_request_definition
    from controlplane.client.resources import CUSTOM_RESOURCE_DEFINITIONS

    settings = setting.parsed["node_groups"].settings
    found: list[Tree] = []
    if settings.provisioning_requests:
        found.append(provisioning_request_definition())
    if settings.buffer_controller or settings.buffer_injection:
        found.append(capacity_buffer_definition())
    if settings.capacity_quotas:
        found.append(capacity_quota_definition())
    return [(CUSTOM_RESOURCE_DEFINITIONS, each) for each in found]


NODE_GROUPS = Option(
    "node-groups",
    metavar="FILE",
    names_files=True,
    help="Node groups, and flags of cluster-autoscaler, of --with cluster-autoscaler.",
    parse=_read_node_groups,
)


def _scheduler_plugins(config: ClusterConfig, setting: Setting) -> Changes:
    from controlplane.api.times import SECOND
    from controlplane.scheduler_plugins.controller import SchedulerPluginsController

    added: tuple[type[Controller], ...] = (SchedulerPluginsController,)
    if setting["appgroup_controller"]:
        from controlplane.scheduler_plugins.app_groups import AppGroupController

        added = (*added, AppGroupController)
    if setting["networktopology_controller"]:
        from controlplane.scheduler_plugins.network_topologies import NetworkTopologyController

        added = (*added, NetworkTopologyController)
    return {
        "topology_updates_ns": round(setting["topology_interval"] * SECOND),
        "own_controllers": (*config.own_controllers, *added),
        "installed": (*config.installed, *_scheduler_plugins_objects(setting)),
    }


def _scheduler_plugins_objects(_: Setting) -> Installed:
    from controlplane.scheduler_plugins.definitions import installation

    return installation()


CLUSTER_AUTOSCALERS = Option(
    "cluster-autoscalers",
    type=int,
    default=1,
    low=1,
    high=9,
    help="Cluster autoscalers; one of several leads.",
)
DESCHEDULER_POLICY = Option(
    "descheduler-policy",
    metavar="FILE",
    names_files=True,
    help="DeschedulerPolicy (descheduler/v1alpha2) of --with descheduler.",
    parse=_read_policy,
)
DESCHEDULING_INTERVAL = Option(
    "descheduling-interval",
    type=float,
    default=300.0,
    low=1,
    metavar="SECONDS",
    help="Virtual time between two passes of the descheduler.",
)
DESCHEDULER_PLUGIN = Option(
    "descheduler-plugin",
    many=True,
    default=(),
    metavar="MODULE",
    names_code=True,
    help="Load plugins of the descheduler from this module or .py file; the policy enables them. Repeatable.",
)
DESCHEDULERS = Option(
    "deschedulers",
    type=int,
    default=1,
    low=1,
    high=9,
    help="Deschedulers; one of several leads.",
)
DESCHEDULER_DRY_RUN = Option(
    "descheduler-dry-run",
    type=bool,
    default=False,
    help="Let the descheduler decide and evict nothing.",
)


def _read_stages(setting: Setting) -> Files:
    from controlplane.kwok.files import load

    return load([Path(name) for name in setting["stages"]], setting["enable_crds"])


def _kwok(config: ClusterConfig, setting: Setting) -> Changes:
    from controlplane.cluster_config import served_kinds
    from controlplane.kwok.controller import kwok_of
    from controlplane.kwok.files import Files, usages_of
    from controlplane.kwok.metrics import KIND as PAGE
    from controlplane.kwok.metrics import NodePages
    from controlplane.kwok.usages import ResourceUsages

    enabled = setting["enable_crds"]
    files: Files = setting.parsed.get("stages") or Files(())
    built_in = frozenset(
        (kind.resource.api_version, kind.kind) for kind in served_kinds(setting.release)
    )
    used = usages_of(files, enabled)
    pages = tuple(each for each in enabled if each == PAGE)
    return {
        "own_controllers": (
            *config.own_controllers,
            kwok_of(files.stages, built_in, watches=STAGE in enabled),
        ),
        "installed": (*config.installed, *_kwok_objects(setting)),
        "stages": True,
        "usage": used,
        "node_pages": NodePages(files.metrics, used or ResourceUsages(), pages)
        if files.metrics or pages
        else None,
        "debugging": _debugging(files, enabled),
    }


def _debugging(files: Files, enabled: Sequence[str]) -> Debugging | None:
    """Return the debugging rules for fake nodes, from files and from the API."""
    from controlplane.kwok.debugging import KINDS, Debugging
    from controlplane.kwok.definitions import plural_of

    stored = {kind: plural_of(kind) for kind in KINDS if kind in enabled}
    if not stored:
        return files.debugging
    return Debugging({} if files.debugging is None else files.debugging.rules, stored)


def _kwok_objects(setting: Setting) -> Installed:
    enabled = setting["enable_crds"]
    if not enabled:
        return ()
    from controlplane.kwok.definitions import KINDS, installation

    return installation(kind for kind in KINDS if kind in enabled)


def _has_stages(setting: Setting) -> bool:
    """Return whether stages come from the API. Raises UsageError for a kind that is not KWOK's."""
    _check_enabled(setting)
    return STAGE in setting["enable_crds"]


def _check_enabled(setting: Setting) -> None:
    from controlplane.errors import shown
    from controlplane.kwok.definitions import KINDS

    for kind in setting["enable_crds"]:
        if kind not in KINDS:
            raise UsageError(f"--enable-crds: {shown(kind)}: expected {', '.join(KINDS)}")


STAGE: Final = "Stage"
ENABLE_CRDS = Option(
    "enable-crds",
    many=True,
    default=(),
    metavar="KIND",
    help="Define a kind of KWOK, such as Stage, and read its objects from the API (--with kwok). Repeatable.",
    parse=_check_enabled,
)
STAGES = Option(
    "stages",
    many=True,
    default=(),
    metavar="FILE",
    names_files=True,
    help="Stages and other objects (kwok.x-k8s.io/v1alpha1) of --with kwok. Repeatable.",
    parse=_read_stages,
)
KUEUE_CONFIG = Option(
    "kueue-config",
    metavar="FILE",
    names_files=True,
    help="Configuration (config.kueue.x-k8s.io/v1beta2) of --with kueue.",
    parse=_read_kueue_config,
)
KUEUE_REPLICAS = Option(
    "kueue-replicas",
    type=int,
    default=1,
    low=1,
    high=9,
    help="Replicas of --with kueue; one of several leads.",
)
KUEUE_JOB = Option(
    "kueue-job",
    many=True,
    default=(),
    metavar="MODULE",
    names_code=True,
    help="Let --with kueue manage kinds of jobs of this module or .py file (controlplane.kueue.jobs). Repeatable.",
    parse=_read_kueue_jobs,
)

TOPOLOGY_INTERVAL = Option(
    "topology-interval",
    type=float,
    default=60.0,
    low=1,
    metavar="SECONDS",
    help="Virtual time between two reports of a node's NUMA zones; assignments are reported at once.",
)

APPGROUP_CONTROLLER = Option(
    "appgroup-controller",
    type=bool,
    default=False,
    help="Run the controller of AppGroups, which orders their workloads (--with scheduler-plugins).",
)
NETWORKTOPOLOGY_CONTROLLER = Option(
    "networktopology-controller",
    type=bool,
    default=False,
    help="Run the controller of NetworkTopologies, which turns measurements into weights (--with scheduler-plugins).",
)

SYSTEMS: Final[Mapping[str, System]] = {
    "cluster-autoscaler": System(
        _cluster_autoscaler,
        (NODE_GROUPS, CLUSTER_AUTOSCALERS),
        needed=(NODE_GROUPS,),
        installs=_autoscaler_kinds,
        brings_nodes=True,
        waits_s=_autoscaler_waits_s,
    ),
    "descheduler": System(
        _descheduler,
        (
            DESCHEDULER_POLICY,
            DESCHEDULER_PLUGIN,
            DESCHEDULING_INTERVAL,
            DESCHEDULERS,
            DESCHEDULER_DRY_RUN,
        ),
        needed=(DESCHEDULER_POLICY,),
        waits_s=lambda setting: float(setting["descheduling_interval"]),
    ),
    "kwok": System(
        _kwok,
        (STAGES, ENABLE_CRDS),
        needed=(STAGES,),
        installs=_kwok_objects,
        goes_without=_has_stages,
    ),
    "kueue": System(_kueue, (KUEUE_CONFIG, KUEUE_JOB, KUEUE_REPLICAS), installs=_kueue_objects),
    "scheduler-plugins": System(
        _scheduler_plugins,
        (TOPOLOGY_INTERVAL, APPGROUP_CONTROLLER, NETWORKTOPOLOGY_CONTROLLER),
        installs=_scheduler_plugins_objects,
    ),
}


def parse_with(setting: Setting) -> None:
    """Refuse a system without the options that it needs. Raises UsageError."""
    for name in setting["with"]:
        for option in SYSTEMS[name].needed:
            if not setting[option.key] and not SYSTEMS[name].goes_without(setting):
                raise UsageError(f"--with {name} needs --{option.name} {option.metavar}".rstrip())


def _of_system(name: str, option: Option) -> Option:
    """The option, which is refused when it is given without the system of this name; files are read once."""

    def parse(setting: Setting) -> Any:
        if name in setting["with"]:
            return None if option.parse is None else option.parse(setting)
        if setting[option.key] != option.default:
            raise UsageError(f"--{option.name} needs --with {name}")
        return None

    return evolve(option, parse=parse)


def apply_with(config: ClusterConfig, setting: Setting) -> Changes:
    """The cluster with the systems of `--with`, in the order in which they are named."""
    changes: dict[str, Any] = {}
    for name in dict.fromkeys(setting["with"]):
        more = SYSTEMS[name].changes(config, setting)
        changes.update(more)
        config = evolve(config, **more)
    return changes


def brings_nodes(setting: Setting) -> bool:
    """Return whether a system of `--with` makes nodes."""
    return any(SYSTEMS[name].brings_nodes for name in setting.options.get("with") or ())


def installed(setting: Setting) -> Installed:
    """The objects of the systems of `--with` that are there from the start."""
    names = dict.fromkeys(setting["with"])
    return [each for name in names for each in SYSTEMS[name].installs(setting)]


def longest_wait_s(setting: Setting) -> float:
    """The longest time for which a system of `--with` does nothing although it will do something."""
    return max((SYSTEMS[name].waits_s(setting) for name in setting["with"]), default=0.0)


WITH = Option(
    "with",
    many=True,
    default=(),
    choices=tuple(SYSTEMS),
    help="Run this system beside the control plane. Repeatable.",
    parse=parse_with,
    apply=apply_with,
)
OPTIONS: Final = (
    WITH,
    *(_of_system(name, option) for name, system in SYSTEMS.items() for option in system.options),
)
"""The options of all systems; each scenario has them (`common_options.COMMON`)."""
