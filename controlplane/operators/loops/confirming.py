"""Attempts at a race on real components: its world without the emulated ones, served to the programs in their place.

The workload begins once the programs watch, in real time. The scenario's invariants are asked all along, and once more
at the end, when the workload is done and a while has passed.
"""

from __future__ import annotations

import secrets
import signal
import subprocess
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import evolve, frozen

from actors import EventLog
from actors.pace import Pacer
from actors.strategies import RandomWalk
from controlplane.apiserver.http import kubeconfig
from controlplane.errors import UsageError
from controlplane.operators.confirmation import BROKEN, FAILED, HELD, MISSED, Attempt, Confirmation
from controlplane.operators.loops import alone
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.plans.control import Control
from controlplane.scenarios.plans.language import parse
from controlplane.serving.session import Rim, ServedCluster, serve_async

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from controlplane.apiserver.http.kubeconfig import Address
    from controlplane.cluster import ClusterConfig
    from controlplane.operators.components import Component
    from controlplane.scenarios.engine.plan import Plan
    from controlplane.scenarios.engine.scenario import Main, Scenario
    from controlplane.scenarios.engine.user import User
    from controlplane.scenarios.plans.outside import Seen

__all__ = ["How", "confirm"]

WATCHING: Final = "real components watch"
DONE: Final = "workloads that are done"
QUIET_S: Final = 1.0
"""A component has started when it watches, and has begun no further watch for so long (seconds of wall time)."""
START_S: Final = 60.0
"""The longest time until all components have started."""
POLL_S: Final = 0.05
LAST_WORDS: Final = 300
"""The number of characters of a program's last line that are reported."""


@frozen
class How:
    """The extent of a confirmation: number of attempts, first seed, wait at the end and time limit in seconds."""

    times: int = 3
    seed: int = 0
    settle_s: float = 5.0
    limit_s: float = 300.0


class ClusterWithout(ServedCluster):
    """A served cluster in which some processes are not emulated: programs outside take their place."""

    def __init__(self, config: ClusterConfig, *, without: frozenset[str], **options: Any) -> None:
        self._without = without
        super().__init__(config, **options)

    def _add_replicas(
        self,
        name: str,
        count: int,
        main: Callable[..., Coroutine[Any, Any, None]],
        args: Callable[[], tuple[Any, ...]],
        election: Any = None,
        **kwargs: Any,
    ) -> None:
        if name in self._without:
            args()  # observers find the probe of a process that never starts
            return
        super()._add_replicas(name, count, main, args, election, **kwargs)


def confirm(
    plan: Plan,
    name: str,
    components: Sequence[Component],
    how: How = How(),
    tell: Callable[[str], None] = lambda _line: None,
) -> Confirmation:
    """Try a scenario on real components. Raises UsageError when a program does not start.

    Args:
        plan: the scenario with its options; the option `plan` has the lines of the perturbation plan.
        name: how the report calls it.
        components: the programs, one for each process that they replace.
        how: the extent.
        tell: is told of each attempt, in one line.
    """
    made = evolve(plan, scenario=_served(plan.scenario, components))
    attempts = []
    for number in range(how.times):
        with TemporaryDirectory(prefix="confirm-") as folder:
            one = _Attempt(made, components, how, how.seed + number, Path(folder))
            attempt = alone.run(one.perform)
        attempts.append(attempt)
        tell(f"attempt {number + 1} of {how.times}: {attempt}")
    return Confirmation(name, tuple(attempts))


def _served(scenario: Scenario, components: Sequence[Component]) -> Scenario:
    """The scenario in a served world without the processes; its workloads wait for the programs."""
    without = frozenset(each.kind.actor for each in components)
    return evolve(
        scenario,
        workload={name: _after_start(main) for name, main in scenario.mains().items()},
        make=partial(ClusterWithout, without=without),
        live=True,
        faults=(),
    )


def _after_start(main: Main) -> Main:
    """The workload, which begins once the programs watch and notes its end."""

    async def workload(user: User) -> None:
        await user.wait_until(lambda run: WATCHING in run.notes, every_s=POLL_S)
        await main(user)
        user.notes[DONE] = user.notes.get(DONE, 0) + 1

    return workload


class _Attempt:
    """One attempt."""

    def __init__(
        self, plan: Plan, components: Sequence[Component], how: How, seed: int, folder: Path
    ) -> None:
        self._components = components
        self._how = how
        self._folder = folder
        self._run = Execution(plan, RandomWalk(seed), log=EventLog(keep=False))
        self._control = self._run.control or Control(self._run.cluster, parse(()))
        self._control.outside.on_seen = self._seen
        self._control.outside.on_kill = self._kill
        self._watches: dict[str, float] = {}
        """By process, when it began its latest watch."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._address: Address | None = None
        self._ending = False

    def _seen(self, seen: Seen) -> None:
        if seen.what.verb in ("watch", "list"):
            self._watches[seen.what.actor] = trio.current_time()

    async def perform(self) -> Attempt:
        """Serve, start the programs, wait for the end, and judge."""
        begin = trio.current_time()
        stop, ready = trio.Event(), trio.Event()

        def reached(address: Address) -> None:
            self._address = address
            ready.set()

        async def serve() -> None:
            rim = Rim(
                token=secrets.token_urlsafe(24), http2=False
            )  # plans cut one request's connection
            await serve_async(self._run, rim, Pacer(), reached, stop, keep=False)
            ready.set()

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(serve)
                await ready.wait()
                for each in self._components:
                    self._start(each)
                with trio.move_on_after(self._how.limit_s):
                    await self._until_done()
                broken = self._broken()
                self._ending = True
                stop.set()
        finally:
            for process in self._processes.values():
                process.kill()
                process.wait()
        return self._judged(broken, trio.current_time() - begin)

    # ------------------------------------------------------------------ the programs

    def _start(self, component: Component) -> None:
        """Start a program with a kubeconfig in which it acts as the user that it is in a real cluster."""
        assert self._address is not None
        kind, actor = component.kind, component.kind.actor
        path = self._folder / f"{actor}.kubeconfig"
        path.unlink(missing_ok=True)
        kubeconfig.write(path, evolve(self._address, acts_as=kind.user, groups=kind.groups), actor)
        controllers = self._run.cluster.config.enabled_controllers
        words = component.words(path, controllers)
        with (self._folder / f"{actor}.log").open("ab") as log:
            try:
                self._processes[actor] = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder
                )
            except OSError as error:
                raise UsageError(f"{words[0]}: {error.strerror}") from error

    def _kill(self, actor: str) -> None:
        """End a program as SIGKILL does, and start it again."""
        process = self._processes.get(actor)
        if process is None or self._ending:
            return
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait()
        self._start(next(each for each in self._components if each.kind.actor == actor))

    def _dead(self) -> str:
        """Return which program has ended by itself, with its last words; "" if all run."""
        for actor, process in self._processes.items():
            if process.poll() is not None:
                lines = (self._folder / f"{actor}.log").read_text(errors="replace").splitlines()
                words = lines[-1][:LAST_WORDS] if lines else "it wrote nothing"
                return f"{actor} ended with status {process.returncode}: {words}"
        return ""

    # ------------------------------------------------------------------ the course

    async def _until_done(self) -> None:
        """Wait until the programs watch, the workloads are done, and the time of rest has passed."""
        late = trio.current_time() + START_S
        while not self._all_watch():
            if self._run.ended:
                return
            if dead := self._dead():
                raise UsageError(dead)
            if trio.current_time() > late:
                raise UsageError(
                    f"not all of {', '.join(self._processes)} watch after {START_S:g} s"
                )
            await trio.sleep(POLL_S)
        self._run.notes[WATCHING] = True
        while not (self._is_done() or self._run.ended or self._dead()):
            await trio.sleep(POLL_S)
        until = trio.current_time() + self._how.settle_s
        while trio.current_time() < until and not (self._run.ended or self._dead()):
            await trio.sleep(POLL_S)

    def _is_done(self) -> bool:
        """Return whether all workloads have come to their end."""
        return bool(self._run.notes.get(DONE, 0) == len(self._run.plan.scenario.mains()))

    def _all_watch(self) -> bool:
        now = trio.current_time()
        return all(now - self._watches.get(actor, now) > QUIET_S for actor in self._processes)

    def _broken(self) -> str:
        """Check that all programs run, and all invariants once more, unless the run has ended; return the violation."""
        if self._run.ended:
            return ""
        if dead := self._dead():
            return dead
        for each in self._run.plan.invariants():
            found = each.check(self._run)
            if found:
                return f"{each.name}: {found}"
        return ""

    def _judged(self, broken: str, wall_s: float) -> Attempt:
        result = self._run.result
        if result.verdict == "violated":
            return Attempt(BROKEN, result.reason, wall_s)
        if broken:
            return Attempt(BROKEN, broken, wall_s)
        if not result.ok:
            return Attempt(FAILED, f"{result.verdict}: {result.reason}", wall_s)
        if not self._is_done():
            return Attempt(FAILED, "the workload did not end in time", wall_s)
        missed = [str(each) for each in self._control.outcomes() if not each.reached]
        return Attempt(MISSED, missed[0], wall_s) if missed else Attempt(HELD, "", wall_s)
