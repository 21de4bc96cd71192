"""Options that every scenario has: the strategy, the Kubernetes version, the cluster."""

from __future__ import annotations

from controlplane.gates import LATEST
from controlplane.scenarios.engine import option_effects as effects
from controlplane.scenarios.engine import systems
from controlplane.scenarios.engine.option import Option

PLANS = "plans"
"""The strategy that enumerates perturbation plans: it is the search's, since it changes what fails."""


def _strategies() -> tuple[str, ...]:
    from actors.strategies import NAMES

    return (*NAMES, PLANS)


def _quantity(text: str) -> str:
    from controlplane.api.quantity import QuantityError, parse

    try:
        if parse(text).milli_value() >= 0:
            return text
    except QuantityError:
        pass
    raise ValueError("a quantity, as 8, 500m or 32Gi")


def _perturbations(text: str) -> str:
    from controlplane.scenarios.plans.language import parse

    return str(parse(text))


def _plan_file(name: str) -> str:
    from controlplane.scenarios.plans.language import read

    return read(name)


SEED = Option("seed", type=int, default=0, help="Seed of the strategy that answers choices.")
STRATEGY = Option("strategy", choices=_strategies, default="fifo", help="Answers the choices.")
FAIR_AFTER = Option(
    "fair-after",
    type=int,
    low=0,
    metavar="STEPS",
    help="From this step on the schedule is fair: what then turns in a circle does so by itself.",
)
PLAN = Option(
    "plan",
    many=True,
    default=(),
    metavar="FILE",
    convert=_perturbations,
    reads=_plan_file,
    help="Hold, delay, fail or lose the messages, and kill the processes, that FILE names; repeatable.",
)
UNTIL = Option("until", type=float, low=0, metavar="SECONDS", help="Stop at this virtual time.")

RELEASE = Option("release", default=LATEST, help="Emulate this minor release.")
WITHOUT_FIX = Option(
    "without-fix", many=True, default=(), metavar="N", help="Turn a fix gate off; repeatable."
)
FIX = Option(
    "fix",
    many=True,
    default=(),
    metavar="N[=VARIANT]",
    help="Put a fix in force that the release does not have, or choose another form of one.",
)
FEATURE_GATES = Option(
    "feature-gates",
    many=True,
    default=(),
    metavar="A=true,B=false",
    help="Feature gates of the scheduler and the API server that differ from the release's defaults.",
    parse=effects.parse_feature_gates,
    apply=effects.apply_feature_gates,
)

NODES = Option("nodes", type=int, default=2, low=0, high=100_000, help="Nodes to make.")
NODE_CPU = Option("node-cpu", default="8", convert=_quantity, help="CPU of each made node.")
NODE_MEMORY = Option(
    "node-memory", default="32Gi", convert=_quantity, help="Memory of each made node."
)
APISERVERS = Option(
    "apiservers",
    type=int,
    low=1,
    high=9,
    sets="apiservers",
    help="API servers over one store; each process is connected to one of them at a time.",
)
CACHE_LAG = Option(
    "cache-lag",
    type=float,
    low=0,
    metavar="SECONDS",
    help="By how much the caches of several API servers may lag behind the store; how much is a choice.",
    apply=effects.apply_cache_lag,
)
SCHEDULERS = Option(
    "schedulers",
    type=int,
    low=1,
    high=9,
    sets="schedulers",
    help="Schedulers; one of several leads.",
)
CONTROLLER_MANAGERS = Option(
    "controller-managers",
    type=int,
    low=1,
    high=9,
    sets="controller_managers",
    help="Controller managers; one of several leads.",
)
CONTROLLERS = Option(
    "controllers",
    metavar="LIST",
    help="Controllers that run: '*' for all, 'job' for one, '-job' for not this one, separated by commas.",
    parse=effects.parse_controllers,
    apply=effects.apply_controllers,
)
WITHOUT = Option(
    "without",
    metavar="LIST",
    help="Leave parts to others, separated by commas: scheduler, controllers, kubelets.",
    parse=effects.parse_without,
    apply=effects.apply_without,
)
ADMISSION = Option(
    "admission",
    metavar="LIST",
    help="Admission plugins that run: '*' for all, 'Priority' for one, '-Priority' for not this one.",
    parse=effects.parse_admission,
    apply=effects.apply_admission,
)
HEARTBEATS = Option("heartbeats", type=bool, sets="heartbeats", help="Renew node leases.")
KUBELET_EVENTS = Option(
    "kubelet-events",
    type=bool,
    sets="kubelet_events",
    help="Let kubelets report Events about containers.",
)
KUBELET_CONFIG = Option(
    "kubelet-config",
    metavar="FILE",
    names_files=True,
    help="KubeletConfiguration (kubelet.config.k8s.io/v1beta1) of all nodes.",
    parse=effects.parse_equipment,
    apply=effects.apply_equipment,
)
MACHINE = Option(
    "machine",
    metavar="TEXT",
    help="Hardware of all nodes: a preset, or as 'sockets=2 cores=8 threads=2 memory=32Gi' (cores and memory per NUMA"
    " node).",
    parse=effects.parse_equipment,
    apply=effects.apply_equipment,
)
INFORMERS = Option(
    "informers",
    choices=("joined", "split"),
    help="One task per informer, or one each for reflector, processor and handlers (more interleavings).",
    apply=effects.apply_informers,
)
SCHEDULER_CONFIG = Option(
    "scheduler-config",
    metavar="FILE",
    names_files=True,
    help="KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1).",
    apply=effects.apply_scheduler_config,
)
SCHEDULER_PLUGIN = Option(
    "scheduler-plugin",
    many=True,
    default=(),
    metavar="MODULE",
    names_code=True,
    help="Load scheduler plugins from this module or .py file; the configuration enables them. Repeatable.",
    apply=effects.apply_scheduler_plugin,
)
EXPLAIN_SCHEDULING = Option(
    "explain-scheduling",
    type=bool,
    default=False,
    help="Log what each scheduler plugin said, and write it to the pods' annotations.",
    apply=effects.apply_explain_scheduling,
)
OWN_CONTROLLER = Option(
    "own-controller",
    many=True,
    default=(),
    metavar="MODULE",
    names_code=True,
    help="Run the controllers of this module or .py file, each as a process of its own. Repeatable.",
    parse=effects.parse_own_controllers,
    apply=effects.apply_own_controllers,
)
COMMON = (
    SEED,
    STRATEGY,
    FAIR_AFTER,
    PLAN,
    UNTIL,
    RELEASE,
    WITHOUT_FIX,
    FIX,
    FEATURE_GATES,
    NODES,
    NODE_CPU,
    NODE_MEMORY,
    APISERVERS,
    CACHE_LAG,
    SCHEDULERS,
    CONTROLLER_MANAGERS,
    CONTROLLERS,
    WITHOUT,
    ADMISSION,
    HEARTBEATS,
    KUBELET_EVENTS,
    KUBELET_CONFIG,
    MACHINE,
    INFORMERS,
    SCHEDULER_CONFIG,
    SCHEDULER_PLUGIN,
    EXPLAIN_SCHEDULING,
    OWN_CONTROLLER,
    *systems.OPTIONS,
)
VERSIONS = (RELEASE, WITHOUT_FIX, FIX, FEATURE_GATES)
"""Options that say which Kubernetes."""
