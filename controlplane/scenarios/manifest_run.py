"""The scenario of `controlplane run` and `serve`: a whole cluster, and what the user's files say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from controlplane.api.times import SECOND
from controlplane.api.validation import parse_int64
from controlplane.errors import shown
from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controlplane.cluster import ClusterConfig
    from controlplane.controllers.loops.storage import Storage
    from controlplane.scenarios.engine.execution import Execution
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User
    from controlplane.scenarios.inputs import reading
    from controlplane.scenarios.inputs.manifests import Manifest
    from controlplane.scenarios.inputs.step_scenario import StepScenario
    from controlplane.scenarios.inputs.submission import Resources

Tree = dict[str, Any]
DEFAULT_NODES = 3
STEPS = "step scenario"
"""The note of a run with the status of its Scenario of kube-scheduler-simulator."""
LIVELOCK_LIMIT = 2_000_000
PROGRESS_STEPS = 4096
WHOLE = {
    "nodes": None,
    "informers": "joined",
    "apiservers": 1,
    "cache_lag": 0.0,
    "schedulers": 1,
    "controller_managers": 1,
}
"""Defaults of common options for a cluster that runs files."""
TOLD = {
    "nodes": f"{DEFAULT_NODES} if the files bring none",
    "heartbeats": "only without a trace",
    "kubelet_events": "only without a trace",
}

FILES = Option(
    "files",
    many=True,
    default=(),
    names_files=True,
    help="Manifests (YAML, JSON, folders of them; - for standard input) or openb traces (CSV).",
)
ALL_AT_ONCE = Option(
    "all-at-once",
    type=bool,
    default=False,
    help="Create all pods of a trace at time 0 and delete none.",
)


MAX_PODS = Option(
    "max-pods",
    type=int,
    default=1_000_000,
    low=1,
    help="How many pods the files may ask for in all; more are refused.",
)


@frozen
class Given:
    """The checked contents of the manifest files."""

    nodes: tuple[Tree, ...]
    submissions: tuple[reading.Submission, ...]
    resources: Resources
    heartbeats: bool
    kubelet_events: bool
    notes: tuple[str, ...]
    is_trace: bool = False
    asked_pods: int = 0
    """The number of pods that the files ask for, directly or by workloads."""
    scheduler: Manifest | None = None
    """The scheduler's configuration in an export of kube-scheduler-simulator."""
    scenario: StepScenario | None = None
    """Operations by step, which come after the submissions."""


def prepare(setting: Setting) -> Given:
    """Read and try everything that the files hold. Raises UsageError."""
    from controlplane.apiserver.schema.feature_gates import switched_on
    from controlplane.cluster import DISABLED_ADMISSION, node_tree
    from controlplane.cluster_config import EPOCH_NS
    from controlplane.scenarios.engine.systems import brings_nodes, installed
    from controlplane.scenarios.inputs import reading
    from controlplane.scenarios.inputs.asked_pods import check_asked_pods
    from controlplane.scenarios.inputs.submission import preflight

    options = setting.options
    given = reading.load(options["files"], all_at_once=options.get("all_at_once", False))
    found, told = as_released(given.submissions, setting.release)
    given = evolve(given, submissions=found)
    count = options["nodes"]
    if count is None:
        later = _creates_nodes(given.submissions, given.scenario)
        count = 0 if given.nodes or later or brings_nodes(setting) else DEFAULT_NODES
    size = {"cpu": options["node_cpu"], "memory": options["node_memory"]}
    made = [node_tree(f"node-{number}", **size) for number in range(1, count + 1)]
    nodes = (*given.nodes, *made)
    off = setting.parsed.get("admission", ())
    resources, submissions = preflight(
        given.submissions,
        nodes,
        options.get("epoch") or EPOCH_NS,
        (*DISABLED_ADMISSION, *off),
        setting.release,
        old_versions=options.get("old_versions", False),
        gates=switched_on(setting.parsed.get("feature_gates") or {}, setting.release),
        installed=installed(setting) if options.get("with") else (),
    )
    asked = check_asked_pods(submissions, options.get("max_pods", MAX_PODS.default))
    heartbeats, events = (
        options[key] if options[key] is not None else not given.is_trace
        for key in ("heartbeats", "kubelet_events")
    )
    notes = told + _notes_of_export(given)
    if given.is_trace and not (heartbeats and events):
        notes += (
            "a trace: node heartbeats and the kubelets' Events are off unless asked for"
            " (--heartbeats, --kubelet-events)",
        )
    return Given(
        nodes,
        submissions,
        resources,
        heartbeats,
        events,
        notes,
        given.is_trace,
        asked,
        given.scheduler,
        given.scenario,
    )


def _notes_of_export(given: reading.Inputs) -> tuple[str, ...]:
    """Sentences on exported objects: those left out, and namespaces made for them."""
    notes = []
    if given.left_out:
        count = sum(given.left_out.values())
        kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(given.left_out.items()))
        notes.append(
            f"{count} exported objects are left out: the control plane makes them anew ({kinds})"
        )
    if given.namespaces:
        notes.append(f"namespaces made for exported objects: {', '.join(given.namespaces)}")
    return tuple(notes)


GROUP_API = "groupsnapshot.storage.k8s.io"


def as_released(
    submissions: Sequence[reading.Submission], release: str
) -> tuple[tuple[reading.Submission, ...], tuple[str, ...]]:
    """Definitions that the processes of a release can work with, and what is to be said of it.

    Up to 1.33 they speak v1beta1 of groups. What is stored in a later version loses the members of a group on
    its way, if nothing converts it; so v1beta1 is stored then, as the definitions of those releases have it.
    """
    from controlplane.scenarios.churns.storage_world import group_version

    version = group_version(release)
    found, changed = [], False
    for each in submissions:
        tree = each.tree
        spec = tree.get("spec") or {}
        is_group = tree["kind"] == "CustomResourceDefinition" and spec.get("group") == GROUP_API
        if is_group and version == "v1beta1" and _stores_another(spec, version):
            versions = [{**one, "storage": one["name"] == version} for one in spec["versions"]]
            each = evolve(each, tree={**tree, "spec": {**spec, "versions": versions}})
            changed = True
        found.append(each)
    told = f"definitions of {GROUP_API} store {version}, as those of release {release} do"
    return tuple(found), (told,) if changed else ()


def _stores_another(spec: Tree, version: str) -> bool:
    served = {one.get("name"): one.get("storage") for one in spec.get("versions") or ()}
    converts = (spec.get("conversion") or {}).get("strategy", "None") != "None"
    return version in served and not served[version] and not converts


def build(setting: Setting) -> ClusterConfig:
    """Every component, and the nodes of files and options."""
    from controlplane.cluster import ClusterConfig
    from controlplane.cluster_config import EPOCH_NS
    from controlplane.controllers.common.selection import STANDARD
    from controlplane.kubelet.node.devices import devices_of_objects

    given: Given = setting.given
    config = ClusterConfig(
        nodes=given.nodes,
        enabled_controllers=STANDARD if given.is_trace else ("*",),
        service_accounts=not given.is_trace,
        heartbeats=given.heartbeats,
        kubelet_events=given.kubelet_events,
        epoch_ns=setting.options.get("epoch") or EPOCH_NS,
        storage=storage_of(given.submissions),
        devices=_has_devices(given.submissions),
        device_drivers=devices_of_objects(
            (*given.nodes, *(each.tree for each in given.submissions))
        ),
    )
    if not given.is_trace and any(
        each.tree.get("kind") == "Endpoints" for each in given.submissions
    ):
        from controlplane.controllers.loops.table import MIRRORING

        config = evolve(config, enabled_controllers=(*config.enabled_controllers, MIRRORING))
    if _creates_nodes(given.submissions, given.scenario):
        config = evolve(config, joining_nodes=True)
    if given.scenario is not None:
        disabled = ["-*" if name == "*" else f"-{name}" for name in given.scenario.disabled]
        config = evolve(
            config,
            controllers="-*" not in disabled,
            enabled_controllers=(*config.enabled_controllers, *disabled),
        )
    if given.scheduler is None or setting["scheduler_config"]:
        return config
    from controlplane.scenarios.inputs.simulator_files import CONFIG
    from controlplane.scheduler.config import user_plugins

    registry = user_plugins.registry_with(setting["scheduler_plugin"])
    place = f"{given.scheduler.file}:{given.scheduler.line}: {CONFIG}"
    scheduler = user_plugins.checked_config(given.scheduler.tree, registry, place)
    return evolve(config, scheduler=scheduler, scheduler_plugins=registry)


def _creates_nodes(
    submissions: Sequence[reading.Submission], scenario: StepScenario | None
) -> bool:
    """Return whether Nodes are created while the cluster runs; each of them gets a kubelet then."""
    from controlplane.scenarios.inputs.reading import CREATE

    late = any(each.tree["kind"] == "Node" and each.verb == CREATE for each in submissions)
    return late or (scenario is not None and scenario.creates_nodes)


def _has_devices(submissions: Sequence[reading.Submission]) -> bool:
    """Return whether there are objects of dynamic resource allocation, which the scheduler then watches."""
    return any(
        each.tree.get("apiVersion", "").startswith("resource.k8s.io/") for each in submissions
    )


DRIVER = "emulate.controlplane/csi-driver"
ATOMIC = "emulate.controlplane/csi-atomic-groups"
UPLOAD = "emulate.controlplane/csi-upload-seconds"
RATE = "emulate.controlplane/csi-client-rate"
TOPOLOGY = "emulate.controlplane/csi-topology"
SIDECARS = "emulate.controlplane/csi-snapshotters"
SIDECAR_GROUPS = "emulate.controlplane/csi-snapshotter-groups"
CONTROLLERS = "emulate.controlplane/csi-snapshot-controllers"
CONTROLLER_GROUPS = "emulate.controlplane/csi-snapshot-controller-groups"


def storage_of(submissions: Sequence[reading.Submission]) -> Storage | None:
    """Emulated CSI drivers: one for each CSIDriver object that asks for it in an annotation.

    `emulate.controlplane/csi-driver: hostpath` asks. `.../csi-atomic-groups: "true"` has all volumes of
    a group cut at once, `.../csi-upload-seconds` says how long after its cut a snapshot is
    ready, `.../csi-topology: "true"` has each volume on one node only. Snapshots and group snapshots are
    looked after if their definitions are there.
    `.../csi-snapshotters` and `.../csi-snapshot-controllers` are how many of these processes there are (of
    several one leads; of different numbers the largest counts), `.../csi-snapshotter-groups: "false"` and
    `.../csi-snapshot-controller-groups: "false"` turn the feature gate CSIVolumeGroupSnapshot of one off.
    `.../csi-client-rate: 5/10` limits the requests of each process to 5 a second after 10 at once.
    """
    drivers: list[CsiDriver] = []
    defined = set()
    copies, controllers, gate = 1, 1, True
    rate: tuple[int, int] | None = None
    for submission in submissions:
        tree = submission.tree
        metadata = tree.get("metadata") or {}
        notes = metadata.get("annotations") or {}
        if tree["kind"] == "CustomResourceDefinition":
            defined.add(metadata.get("name", ""))
        if tree["kind"] != "CSIDriver" or DRIVER not in notes:
            continue
        from controlplane.controllers.loops.storage import CsiDriver
        from controlplane.controllers.storage.csi.hostpath import DriverOptions

        if notes[DRIVER] != "hostpath":
            raise submission.error(
                f"metadata.annotations[{DRIVER}]", f"{notes[DRIVER]!r}: expected hostpath"
            )
        try:
            upload = float(notes.get(UPLOAD, "0"))
        except ValueError:
            raise submission.error(
                f"metadata.annotations[{UPLOAD}]", f"{notes[UPLOAD]!r}: expected seconds"
            ) from None
        attach = (tree.get("spec") or {}).get("attachRequired") is not False
        options = DriverOptions(
            name=metadata["name"],
            attaches=attach,
            topology=notes.get(TOPOLOGY) == "true",
            atomic_groups=notes.get(ATOMIC) == "true",
            upload_ns=round(upload * 1_000_000_000),
        )
        groups = notes.get(SIDECAR_GROUPS) != "false"
        drivers.append(CsiDriver(options, groups=groups, attach_required=attach))
        copies = max(copies, _copies(submission, notes, SIDECARS))
        controllers = max(controllers, _copies(submission, notes, CONTROLLERS))
        rate = _rate(submission, notes) or rate
        gate = gate and notes.get(CONTROLLER_GROUPS) != "false"
    if not drivers:
        return None
    from controlplane.controllers.loops.storage import Storage

    return Storage(
        drivers,
        snapshots="volumesnapshots.snapshot.storage.k8s.io" in defined,
        groups="volumegroupsnapshots.groupsnapshot.storage.k8s.io" in defined,
        controller_groups=gate,
        controllers=controllers,
        sidecars=copies,
        client_rate=rate,
    )


def _rate(submission: reading.Submission, notes: Mapping[str, str]) -> tuple[int, int] | None:
    """Requests a second, and how many at once."""
    text = notes.get(RATE, "")
    if not text:
        return None
    parts = [parse_int64(part) or 0 for part in text.split("/")]
    if len(parts) != 2 or min(parts) <= 0:
        raise submission.error(
            f"metadata.annotations[{RATE}]", f"{text!r}: expected REQUESTS/BURST, 5/10 for instance"
        )
    return parts[0], parts[1]


def _copies(submission: reading.Submission, notes: Mapping[str, str], note: str) -> int:
    text = notes.get(note, "1")
    number = parse_int64(text) or 0
    if number <= 0:
        raise submission.error(
            f"metadata.annotations[{note}]", f"{shown(text)}: expected 1 or more"
        )
    return number


async def workload(user: User) -> None:
    """Submit the content of the files, each object at its time."""
    await submit_all(user, user.run.setting.given)


async def submit_all(user: User, given: Given) -> None:
    """Submit the objects, each at its time, and measure the load that they describe, for ever."""
    from controlplane.scenarios.engine.load import follow, has_load
    from controlplane.scenarios.inputs.stepping import Stepping
    from controlplane.scenarios.inputs.submission import submit

    if has_load((*given.nodes, *(each.tree for each in given.submissions))):
        user.spawn(follow)
    await submit(user.ctx, given.submissions, given.resources)
    if given.scenario is not None:
        stepping = Stepping(user.ctx, user.run.cluster, given.scenario, given.resources)
        user.notes[STEPS] = stepping.status
        await stepping.run()


SCENARIO = Scenario(
    "run",
    title="what files say, in a whole cluster",
    workload=workload,
    build=build,
    prepare=prepare,
    options=(FILES, ALL_AT_ONCE, MAX_PODS),
    defaults=WHOLE,
    told=TOLD,
    livelock_limit=LIVELOCK_LIMIT,
)


def show_progress(run: Execution, show: Callable[[str], None], clock: Callable[[], float]) -> None:
    """Give `show` a line now and then while the run goes on: done of total, rate, and the time left.

    `clock` tells the seconds on the wall.
    """
    world, started = run.world, clock()
    asked = run.plan.given.asked_pods

    def tell() -> None:
        bound = run.cluster.activity.writes.get("create pods/binding", 0)
        show(progress_text(world.steps, world.now, clock() - started, bound, asked))

    world.observe(PROGRESS_STEPS, tell)


def progress_text(steps: int, now_ns: int, elapsed_s: float, bound: int, asked: int) -> str:
    """The progress of a run."""
    rate = steps / elapsed_s if elapsed_s > 0 else 0.0
    text = f"{steps:,} steps, {rate:,.0f}/s, virtual time {span(now_ns // SECOND)}"
    if not asked:
        return text
    text += f", {bound:,} of {asked:,} pods bound"
    if 0 < bound < asked:
        text += f", about {span(round(elapsed_s * (asked - bound) / bound))} left"
    return text


def span(seconds: int) -> str:
    """Seconds as days, hours, minutes and seconds, the two largest: 3d 4h."""
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count:,}{unit}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts) or "0s"
