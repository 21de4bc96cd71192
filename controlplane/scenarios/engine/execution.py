"""One execution of a plan: the one engine behind run, serve, race, explore, bench and the tests."""

from __future__ import annotations

import json
import traceback
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from actors import EventLog, Explored, private_files, record
from actors import UsageError as RuntimeUsageError
from actors.jsonl import write
from controlplane import __version__
from controlplane.api.redaction import cleaner
from controlplane.api.times import SECOND
from controlplane.errors import UsageError
from controlplane.scenarios.engine.run import Run
from controlplane.scenarios.engine.user import User

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator
    from pathlib import Path

    from actors import Context, Recording, RunResult, Strategy
    from actors.inlet import Input
    from actors.log import Event
    from actors.world import Driver
    from controlplane.cluster import Cluster
    from controlplane.scenarios.engine.plan import Plan
    from controlplane.scenarios.engine.samples import Samples
    from controlplane.scenarios.engine.scenario import Main
    from controlplane.scenarios.plans.control import Control

DEFAULT_KINDS = ("jitter",)
"""Kinds of choices that keep their default in a run of which only a part is explored."""
QUOTING = frozenset(("apiserver.panic", "kubelet.error", "kubelet.fatal", "pod.written"))
"""Events whose data quote what programs and clients wrote."""
LEFT = ("log.jsonl", "run.rec", "objects.yaml")
"""The files of `Run.save`; with `metrics.jsonl` if metrics were sampled, with `traceback.txt` after an exception."""


class Execution(Run):
    """A world with a plan's cluster, users, faults and invariants in it, to be executed once."""

    def __init__(
        self,
        plan: Plan,
        strategy: Strategy | None = None,
        *,
        log: EventLog | None = None,
        inputs: Iterable[Input] | None = None,
        faultless: bool = False,
    ) -> None:
        """Make the world. A perturbation plan takes the place of the scenario's faults; `faultless` leaves them out."""
        from controlplane.cluster import Cluster

        self.plan = plan = plan.settled()
        scenario = plan.scenario
        limits: dict[str, Any] = {"livelock_limit": scenario.livelock_limit}
        if scenario.step_limit is not None:
            limits["step_limit"] = scenario.step_limit
        if scenario.eager_time:
            limits["eager_time"] = True
        window = scenario.window(plan)
        if window is not None:
            begin, end = (round(moment * SECOND) for moment in window)
            limits["explored"] = Explored(begin, end, DEFAULT_KINDS)
        make = scenario.make or Cluster
        cluster: Cluster = make(
            plan.configure(), strategy=strategy, log=log, inputs=inputs, **limits
        )
        super().__init__(plan, cluster)
        for name, main in scenario.mains().items():
            self.cluster.user(name, _as_user, main, self)
        taken = dict.fromkeys(scenario.mains(), 1)
        for fault in () if faultless or plan.options.get("plan") else scenario.faults:
            number = taken[fault.name] = taken.get(fault.name, 0) + 1
            name = fault.name if number == 1 else f"{fault.name}-{number}"
            self.cluster.user(name, _as_user, fault.main, self)
        self.control: Control | None = None
        """The interpreter of the run's perturbation plan, if it has one."""
        if plan.options.get("plan"):
            from controlplane.scenarios.plans.control import control_of

            self.control = control_of(self.cluster, plan.options["plan"])
        world = self.cluster.world
        looks: dict[Callable[[Run], Any], Callable[[], Any]] = {}
        for invariant in plan.invariants():
            if invariant.begin is not None:
                invariant.begin(self)
            check, look = partial(invariant.check, self), invariant.looks_at
            looks_at = None if look is None else looks.setdefault(look, partial(look, self))
            for actor in invariant.after or (None,):
                world.invariant(invariant.name, check, after=actor, looks_at=looks_at)
        for goal in plan.scenario.sometimes:
            world.sometimes(goal.name, partial(goal.reached, self))
        self._result: RunResult | None = None
        self._samples: Samples | None = None

    def sample(self) -> None:
        """Keep over virtual time what the components count; `save` leaves it with the log. Before the run."""
        from controlplane.scenarios.engine.metrics import metrics_of
        from controlplane.scenarios.engine.samples import Samples

        world = self.world
        samples = self._samples = Samples(partial(metrics_of, self.cluster))
        world.as_time_passes(lambda until_ns: samples.passes(world.now, until_ns))

    def execute(self, driver: Driver = "trio") -> RunResult:
        """Run to the end, or to --until."""
        self._result = self.world.run(driver, until_ns=self.plan.until_ns)
        return self._result

    async def execute_async(self, **options: Any) -> RunResult:
        """`execute` from inside Trio; `options` as of `World.run_async`."""
        self._result = await self.world.run_async(until_ns=self.plan.until_ns, **options)
        return self._result

    @property
    def result(self) -> RunResult:
        """The verdict of the run."""
        if self._result is None:
            raise RuntimeUsageError("the run has not been executed yet")
        return self._result

    @property
    def ended(self) -> bool:
        """Return whether the run has ended."""
        return self._result is not None

    @property
    def traceback(self) -> str:
        """The traceback of the exception that ended the run; "" if none did."""
        return traceback_of(self.result)

    def recording(self) -> Recording:
        """The run as something that can be repeated."""
        return recording_of(self.plan, self.result, self.world.strategy)

    def recording_so_far(self) -> Recording:
        """The run up to here as something that can be repeated; between two steps (`World.between_steps`)."""
        return recording_of(self.plan, self.world.so_far("recorded so far"), self.world.strategy)

    def save(
        self, folder: Path, recording: Recording | None = None, *, show_secrets: bool = False
    ) -> tuple[str, ...]:
        """Leave recording, log, objects and traceback in `folder`, each whole or not at all; their names.

        Only their owner may read them. Data of Secrets and tokens are in the recording alone, as far as a
        replay needs them, unless `show_secrets`.

        `recording` is that of the run that this one repeats, if it does. Raises UsageError for a full
        disk; what was written by then stays, the recording first.
        """
        from controlplane.logs import vocabulary

        make_folder(folder)
        of_line = None if show_secrets else cleaner_of_lines(self)
        with written(folder / "run.rec") as draft:
            draft.write_bytes((recording or self.recording()).to_bytes())
        with written(folder / "log.jsonl") as draft, draft.open("w", encoding="utf-8") as file:
            levels, header = vocabulary.LEVEL_OF, self.log_header()
            write(self.world.log, file, self.log_name(), of_line, levels, header)
        rest = self.save_rest(folder, show_secrets=show_secrets)
        return (*LEFT, *(name for name in rest if name not in LEFT))

    def save_rest(self, folder: Path, *, show_secrets: bool = False) -> tuple[str, ...]:
        """Leave what `save` leaves but log and recording: objects, traceback and numbers; their names.

        Raises UsageError for a full disk.
        """
        clean = None if show_secrets else cleaner(_secrets(self))
        texts = {"objects.yaml": self.cluster.dump(show_secrets=show_secrets)}
        if self.traceback:
            texts["traceback.txt"] = self.traceback if clean is None else clean(self.traceback)
        for name, text in texts.items():
            with written(folder / name) as draft:
                draft.write_text(text, encoding="utf-8")
        left = tuple(texts)
        if self._samples is None:
            return left
        from controlplane.logs.series import NAME as METRICS

        with written(folder / METRICS) as draft, draft.open("w", encoding="utf-8") as file:
            self._samples.end(self.world.now)
            file.writelines(self._samples.lines(self.log_name()))
        return (*left, METRICS)

    def log_name(self, trace_hash: str = "") -> str:
        """Return the run's name in its log: of its trace hash, or of the log's header if the scenario is live.

        `trace_hash` is that of a recording, for a run that has not ended.
        """
        if not self.plan.scenario.live:
            return (trace_hash or self.result.trace_hash)[:12]
        header = json.dumps(self.log_header(), sort_keys=True)
        return blake2b(header.encode(), digest_size=6).hexdigest()

    def log_header(self) -> dict[str, Any]:
        """The first line of the log."""
        from controlplane.logs import vocabulary

        header: dict[str, Any] = {
            "vocabulary": vocabulary.VERSION,
            "package": __version__,
            "epoch_ns": self.cluster.config.epoch_ns,
            "scenario": self.plan.scenario.name,
        }
        if self.world.strategy.seed is not None:
            header["seed"] = self.world.strategy.seed
        return header


def _secrets(run: Run) -> list[dict[str, Any]]:
    """The Secrets that are stored, as trees."""
    return [each.tree for each in run.cluster.objects("/registry/secrets/")]


def cleaner_of_lines(run: Run) -> Callable[[Event, str], str]:
    """The redaction for a run's log, given the Secrets that are stored now."""
    return _clean_lines(cleaner(_secrets(run)))


def _clean_lines(clean: Callable[[str], str]) -> Callable[[Event, str], str]:
    """The redaction for a log: values of Secrets inside quoted texts, and tokens everywhere."""
    plain = cleaner()

    def cleaned(event: Event, line: str) -> str:
        data = event.data or {}
        quotes = event.event in QUOTING or "audit" in data or "annotations" in data
        return (clean if quotes else plain)(line)

    return cleaned


def _as_user(ctx: Context, main: Main, run: Run) -> Coroutine[Any, Any, Any]:
    """Main of an actor that uses the cluster."""
    return main(User(ctx, run))


def recording_of(plan: Plan, result: RunResult, strategy: Strategy) -> Recording:
    """The one form of recording: the scenario and its options, the strategy, the answers, the result."""
    header = {**plan.header(), "seed": strategy.seed}
    return record(result, package=__version__, header=header, strategy=strategy)


def traceback_of(result: RunResult) -> str:
    """The traceback of the exception that ended a run; "" if none did (a divergence is none)."""
    error = result.error
    if error is None or result.verdict == "diverged":
        return ""
    return "".join(traceback.format_exception(error))


def make_folder(folder: Path) -> None:
    """Make a folder for results, for its owner alone. Raises UsageError."""
    try:
        private_files.make_folder(folder)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made: {error.strerror}") from error


def check_folder(folder: Path) -> None:
    """Make a folder for results and see, before any work is done, that files can be made in it. Raises UsageError."""
    make_folder(folder)
    with written(folder / "run.rec", keep=False) as draft:
        draft.touch()


@contextmanager
def written(path: Path, *, keep: bool = True) -> Iterator[Path]:
    """A draft that becomes the file once it was written whole. Raises UsageError; then nothing is left of it.

    It is there, empty and for its owner alone, to be written over.
    """
    draft = path.with_name(f"{path.name}.part")
    try:
        try:
            private_files.touch(draft)
            yield draft
            if keep:
                draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
