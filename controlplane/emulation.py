"""One emulation from files to summary: what `controlplane run` does, as a Python interface."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import define, field, frozen

from actors import EventLog, Replay, record
from actors import UsageError as RuntimeUsageError
from actors import strategies as known_strategies
from actors.jsonl import seconds, write
from actors.log import LEVELS
from actors.recording import load as load_recording
from controlplane import __version__, inputs, summary
from controlplane.api.quantity import QuantityError
from controlplane.api.quantity import parse as parse_quantity
from controlplane.cluster import DISABLED_ADMISSION, EPOCH_NS, Cluster, ClusterConfig, node_tree
from controlplane.errors import UsageError
from controlplane.gates import LATEST, fix_gates
from controlplane.scheduler.config.features import parse as parse_features
from controlplane.submission import Resources, preflight, submit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors import Recording, RunResult, Strategy
    from controlplane.apiserver.loops.replica import ReplicaOptions
    from controlplane.apiserver.storage.store import Store
    from controlplane.scheduler.config.model import SchedulerConfig
    from controlplane.scheduler.plugins.registry import Registry

DEFAULT_NODES = 3
SOMETIMES = (
    "explain_scheduling", "scheduler_plugins", "scheduler_config", "apiservers", "cache_lag",
    "schedulers", "controller_managers", "feature_gates",
)  # fmt: skip
"""What a recording's header tells only where it is not the default."""
PROGRESS_STEPS = 4096


@frozen
class Settings:
    """What a run is asked for; the command line's options under their own names."""

    files: Sequence[str]
    node_count: int | None = None
    node_cpu: str = "8"
    node_memory: str = "32Gi"
    all_at_once: bool = False
    heartbeats: bool | None = None
    kubelet_events: bool | None = None
    informers: str = "joined"
    store: str = "memory"
    until: float | None = None
    strategy: str = "fifo"
    seed: int = 0
    replay: Path | None = None
    release: str = LATEST
    without: Sequence[str] = ()
    variants: Sequence[str] = ()
    driver: str = "trio"
    log_level: str = "trace"
    keep_log: bool = False
    epoch_ns: int = EPOCH_NS
    scheduler_config: Path | None = None
    scheduler_plugins: Sequence[str] = ()
    explain_scheduling: bool = False
    feature_gates: Sequence[str] = ()
    apiservers: int = 1
    cache_lag: float = 0.0
    schedulers: int = 1
    controller_managers: int = 1


@define
class Emulation:
    """A cluster with its user, ready to run once."""

    scenario: ClassVar[str] = "run"
    """What a recording says it is of."""

    cluster: Cluster
    settings: Settings
    header: dict[str, Any]
    notes: list[str] = field(factory=list)
    _result: RunResult | None = field(default=None, init=False)

    @classmethod
    def prepare(cls, settings: Settings) -> Emulation:
        """Read and check everything. Raises UsageError (or RecordingError) before anything runs."""
        gates = fix_gates(settings.release, tuple(settings.without), tuple(settings.variants))
        for resource, text in (("cpu", settings.node_cpu), ("memory", settings.node_memory)):
            _check_quantity(f"--node-{resource}", text)
        given = inputs.load(settings.files, all_at_once=settings.all_at_once)
        count = settings.node_count
        if count is None:
            count = 0 if given.nodes else DEFAULT_NODES
        made = [
            node_tree(f"node-{number}", cpu=settings.node_cpu, memory=settings.node_memory)
            for number in range(1, count + 1)
        ]
        nodes = [*given.nodes, *made]
        preflight(given.submissions, nodes, settings.epoch_ns, DISABLED_ADMISSION)
        heartbeats = settings.heartbeats if settings.heartbeats is not None else not given.is_trace
        events = (
            settings.kubelet_events if settings.kubelet_events is not None else not given.is_trace
        )
        header = {
            "scenario": cls.scenario,
            "inputs": _digest(settings.files),
            "nodes": [count, settings.node_cpu, settings.node_memory],
            "all_at_once": settings.all_at_once,
            "heartbeats": heartbeats,
            "kubelet_events": events,
            "informers": settings.informers,
            "until": settings.until,
            "seed": settings.seed,
            "release": settings.release,
            "gates": gates.to_header(),
        }
        scheduler, plugins = _scheduler(settings, header)
        features = parse_features(settings.feature_gates)
        if features:
            header["feature_gates"] = dict(sorted(features.items()))
        processes = {
            "apiservers": settings.apiservers,
            "cache_lag": settings.cache_lag,
            "schedulers": settings.schedulers,
            "controller_managers": settings.controller_managers,
        }
        header.update({name: count for name, count in processes.items() if count not in (0, 1)})
        if settings.epoch_ns != EPOCH_NS:
            header["epoch_ns"] = settings.epoch_ns
        recording = _recording(settings, header)
        strategy: Strategy
        if recording is None:
            strategy = known_strategies.named(settings.strategy, settings.seed)
        else:
            strategy = Replay(recording.choices)
        log = EventLog(LEVELS[settings.log_level], keep=settings.keep_log)
        config = ClusterConfig(
            nodes=nodes,
            gates=gates,
            release=settings.release,
            heartbeats=heartbeats,
            kubelet_events=events,
            joined_informers=settings.informers == "joined",
            scheduler=scheduler,
            scheduler_features=features,
            scheduler_plugins=plugins,
            explain_scheduling=settings.explain_scheduling,
            store=cls.open_store(settings),
            epoch_ns=settings.epoch_ns,
            apiservers=settings.apiservers,
            replica=_replica(settings),
            schedulers=settings.schedulers,
            controller_managers=settings.controller_managers,
        )
        given_inputs = None if recording is None else recording.inputs
        cluster = cls.make_cluster(config, strategy=strategy, log=log, inputs=given_inputs)
        scratch = Resources(cluster.scratch_server())
        cluster.user("user", submit, given.submissions, scratch)
        emulation = cls(cluster, settings, header)
        if given.is_trace and not (heartbeats and events):
            emulation.notes.append(
                "a trace: node heartbeats and the kubelets' Events are off unless asked for"
                " (--heartbeats, --kubelet-events)"
            )
        return emulation

    @classmethod
    def make_cluster(cls, config: ClusterConfig, **options: Any) -> Cluster:
        """The cluster of this kind of emulation."""
        return Cluster(config, **options)

    @classmethod
    def open_store(cls, settings: Settings) -> Store | None:
        """The store that `settings.store` names; None for one in memory."""
        if settings.store == "memory":
            return None
        from controlplane.apiserver.storage.durable_store import open_store

        if settings.replay is not None:
            raise UsageError(
                "--replay needs --store memory: a recording does not hold what a store held before"
            )
        return open_store(settings.store)

    def run(self, progress: Callable[[str], None] | None = None) -> summary.Summary:
        """Run to the end and say what happened. `progress` gets a line now and then."""
        world = self.cluster.world
        if progress is not None:
            world.observe(
                PROGRESS_STEPS,
                lambda: progress(f"{world.steps} steps, virtual time {seconds(world.now)} s"),
            )
        until = self.settings.until
        until_ns = None if until is None else round(until * 1_000_000_000)
        driver: Any = self.settings.driver
        result = self._result = world.run(driver, until_ns=until_ns)
        cluster = self.cluster
        pods = cluster.objects("/registry/pods/")
        return summary.Summary(
            result.verdict,
            result.reason,
            result.steps,
            seconds(result.t_ns),
            result.trace_hash,
            summary.node_lines(cluster.objects("/registry/minions/"), pods),
            summary.workload_lines(
                cluster.objects("/registry/deployments/"), cluster.objects("/registry/replicasets/")
            ),
            summary.pod_lines(pods),
            summary.activity_line(cluster.activity),
        )

    @property
    def result(self) -> RunResult:
        """How the run ended."""
        if self._result is None:
            raise RuntimeUsageError("the emulation has not run yet")
        return self._result

    @property
    def ended_well(self) -> bool:
        """Whether nothing broke."""
        return self.result.ok

    def save(self, folder: Path) -> None:
        """Leave log.jsonl, run.rec and objects.yaml in `folder`, each whole or not at all."""
        result = self.result
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be made: {error.strerror}") from error
        world = self.cluster.world
        recording = record(result, package=__version__, header=self.header, strategy=world.strategy)
        recording.save(folder / "run.rec")
        draft = folder / "log.jsonl.part"
        with draft.open("w", encoding="utf-8") as file:
            write(world.log, file, result.trace_hash[:12])
        draft.replace(folder / "log.jsonl")
        draft = folder / "objects.yaml.part"
        draft.write_text(self.cluster.dump(), encoding="utf-8")
        draft.replace(folder / "objects.yaml")


def _scheduler(
    settings: Settings, header: dict[str, Any]
) -> tuple[SchedulerConfig | None, Registry | None]:
    """The scheduler's configuration and plugins, when the settings ask for other than the default ones."""
    if settings.explain_scheduling:
        header["explain_scheduling"] = True
    path, modules = settings.scheduler_config, settings.scheduler_plugins
    if path is None and not modules:
        return None, None
    from controlplane.scheduler.config import user_plugins

    registry = user_plugins.registry_with(modules)
    header["scheduler_plugins"] = list(modules)
    if path is None:
        return None, registry
    config = user_plugins.load_config(path, registry)
    header["scheduler_config"] = _digest([str(path)])
    return config, registry


def _replica(settings: Settings) -> ReplicaOptions | None:
    """What API servers that share their store may do. Raises UsageError."""
    if settings.apiservers == 1:
        if settings.cache_lag:
            raise UsageError(
                "--cache-lag needs --apiservers 2 or more: one server's caches lag by the schedule alone"
            )
        return None
    from controlplane.apiserver.loops.replica import ReplicaOptions

    return ReplicaOptions(lag_ns=round(settings.cache_lag * 1_000_000_000))


def _digest(files: Sequence[str]) -> str:
    """Identifies the content of the input files, wherever they lie."""
    digest = blake2b(digest_size=16)
    for name in files:
        path = Path(name)
        parts = (
            sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
        )
        for part in parts:
            try:
                content = part.read_bytes()
            except OSError as error:
                raise UsageError(f"{part}: cannot be read: {error.strerror}") from error
            digest.update(len(content).to_bytes(8, "big"))
            digest.update(content)
    return digest.hexdigest()


def _recording(settings: Settings, header: dict[str, Any]) -> Recording | None:
    """The recording to replay, if one was asked for: it must be of the same input."""
    if settings.replay is None:
        return None
    recording = load_recording(settings.replay, package=__version__)
    told = {key: value for key, value in recording.header.items() if key != "strategy"}
    if told.get("scenario") != header["scenario"]:
        raise UsageError(
            f"{settings.replay}: records {told.get('scenario')!r}, not a {header['scenario']}:"
            " replay it with the command that made it"
        )
    for key in (*header, *(key for key in SOMETIMES if key not in header)):
        value = header.get(key)
        if key != "seed" and told.get(key) != value:
            raise UsageError(
                f"{settings.replay}: recorded with another {key}: {told.get(key)!r}, now {value!r}"
            )
    return recording


def _check_quantity(option: str, text: str) -> None:
    try:
        quantity = parse_quantity(text)
    except QuantityError:
        quantity = None
    if quantity is None or quantity.milli_value() < 0:
        raise UsageError(f"{option} {text!r}: expected a quantity, as 8, 500m or 32Gi")
