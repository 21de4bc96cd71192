"""The processes of an operator: started when their emulated container starts, ended with it; their exits end it."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio
from attrs import define, field

from controlplane.apiserver.http import kubeconfig
from controlplane.operators import launcher
from controlplane.operators.container import ACCOUNT, lives, surroundings
from controlplane.operators.quiescence import Sample

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from controlplane.api.container_inside import Find
    from controlplane.api.tree import Tree
    from controlplane.operators.container import Credentials, Life
    from controlplane.operators.description import ProcessRule
    from controlplane.operators.quiescence import Quiescence

__all__ = ["Exit", "Process", "Processes"]

OUTPUT_LIMIT: Final = 4 << 20
"""The number of bytes of a process's output that are kept."""
RECORDED_LIMIT: Final = 256 << 10
"""The number of bytes of a process's output that enter the world, and with it a recording."""
ACCOUNT_VARIABLE: Final = "SERVICE_ACCOUNT_DIR"
"""Names the folder of the service account's files where they cannot be laid out at their place."""
GRACE_S: Final = 1.0
"""The time that a process may take to end after SIGTERM, in seconds of wall time."""


@define
class Exit:
    """The end of a process: its client's pod, exit code, and whether it was ended by us."""

    pod: str
    code: int
    wanted: bool


@define(eq=False)
class Process:
    """One process, its container's life, and its output so far."""

    life: Life
    handle: trio.Process | None = None
    output: bytearray = field(factory=bytearray)
    ending: bool = False
    """The container or the plan ends it."""
    exited: bool = False

    @property
    def pid(self) -> int:
        """The process id, 0 before the start."""
        return 0 if self.handle is None else self.handle.pid


class Processes:
    """All processes of one session."""

    def __init__(
        self,
        rules: Iterable[ProcessRule],
        folder: Path,
        quiescence: Quiescence,
        find: Find,
        credentials: Callable[[Life], Awaitable[Credentials]],
        on_exit: Callable[[Life, int], None],
        on_output: Callable[[Life, bytes], None],
    ) -> None:
        """Begin without any.

        Args:
            rules: which containers are processes.
            folder: for files of the session.
            quiescence: is told of starts and ends.
            find: looks objects of the core group up.
            credentials: makes a token for a pod.
            on_exit: is told of exits.
            on_output: is told of what processes write.
        """
        self._rules = tuple(rules)
        self._folder = folder
        self._quiescence = quiescence
        self._find = find
        self._credentials = credentials
        self._on_exit = on_exit
        self._on_output = on_output
        self._nursery: trio.Nursery | None = None
        self._known: dict[tuple[str, str, str], Process] = {}
        self.exits: list[Exit] = []
        self.notes: list[str] = []
        """Notes for the report on what could not be had."""

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the processes until cancelled; then end them all."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None
                for process in self._known.values():
                    self._signal(process, signal.SIGKILL)

    def look(self, pods: Iterable[Tree]) -> None:
        """Start and end processes as their containers have started and ended; take samples."""
        running: dict[tuple[str, str, str], Life] = {}
        for life in lives(pods, self._rules):
            running[*life.key, life.container_id] = life
        for key, life in running.items():
            if key not in self._known and self._nursery is not None:
                process = self._known[key] = Process(life)
                self._quiescence.starts(id(process), trio.current_time())
                self._nursery.start_soon(self._run, process)
        for key, process in self._known.items():
            if process.exited:
                continue
            if key not in running and not process.ending:
                process.ending = True
                self._signal(process, signal.SIGTERM)
                if self._nursery is not None:
                    self._nursery.start_soon(self._kill_later, process)
            sample = _sample(process.pid)
            if sample is not None:
                self._quiescence.look(id(process), sample, trio.current_time())

    def kill(self, pod: str) -> None:
        """End the process of a pod at once, as SIGKILL does."""
        for process in self._of_pod(pod):
            process.ending = True
            self._signal(process, signal.SIGKILL)

    def asked(self, pod: str) -> None:
        """Note that the process of a pod has sent a request."""
        for process in self._of_pod(pod):
            self._quiescence.asked(id(process))

    @property
    def outputs(self) -> list[tuple[str, bytes]]:
        """The output of each process, by its pod, in the order of their starts."""
        return [(each.life.name, bytes(each.output)) for each in self._known.values()]

    @property
    def started(self) -> int:
        """The number of processes so far."""
        return len(self._known)

    def _of_pod(self, pod: str) -> list[Process]:
        return [
            each
            for each in self._known.values()
            if not each.exited and each.life.pod["metadata"]["name"] == pod
        ]

    def _signal(self, process: Process, number: signal.Signals) -> None:
        """Signal the process and what it started."""
        if process.handle is not None and process.handle.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.handle.pid, number)

    async def _kill_later(self, process: Process) -> None:
        await trio.sleep(GRACE_S)
        self._signal(process, signal.SIGKILL)

    async def _run(self, process: Process) -> None:
        """Run one process to its end."""
        life = process.life
        credentials = await self._credentials(life)
        given = surroundings(life, self._find, credentials, os.environ)
        number = len(self._known)
        files = self._folder / f"process-{number}"
        files.mkdir(parents=True, exist_ok=True)
        env, command = dict(given.env), list(given.command)
        if life.rule.isolate and _isolates():
            told = {
                "hostname": given.hostname,
                "folders": list(given.folders),
                "files": {
                    path: base64.b64encode(data).decode() for path, data in given.files.items()
                },
            }
            spec = files / "files.json"
            spec.write_text(json.dumps(told), encoding="utf-8")
            command = [sys.executable, "-I", "-S", launcher.__file__, str(spec), *command]
        else:
            path = files / "kubeconfig"
            path.unlink(missing_ok=True)
            address = kubeconfig.Address(
                f"https://{credentials.host}:{credentials.port}",
                credentials.token,
                credentials.authority,
            )
            kubeconfig.write(path, address, "operator", live=lambda _url: False)
            env.setdefault("KUBECONFIG", str(path))
            for place, data in given.files.items():
                laid = files / place.lstrip("/")
                laid.parent.mkdir(parents=True, exist_ok=True)
                laid.write_bytes(data)
            env.setdefault(ACCOUNT_VARIABLE, str(files / ACCOUNT.lstrip("/")))
            self._note(
                f"no mount namespace: processes have KUBECONFIG and {ACCOUNT_VARIABLE} in place of files"
            )
        try:
            process.handle = await trio.lowlevel.open_process(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=given.directory,
                env=env,
                start_new_session=True,
            )
        except OSError as error:
            process.output += f"{command[0]}: {error.strerror}\n".encode()
            self._ended(process, 127)
            return
        if process.ending:
            self._signal(process, signal.SIGKILL)
        handle = process.handle
        assert handle.stdout is not None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read, process)
                code = await handle.wait()
                with trio.move_on_after(0.2):
                    while nursery.child_tasks:
                        await trio.sleep(0.002)
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                self._signal(process, signal.SIGKILL)
                await handle.wait()
                await handle.stdout.aclose()
        self._ended(process, 128 - code if code < 0 else code)

    async def _read(self, process: Process) -> None:
        assert process.handle is not None
        assert process.handle.stdout is not None
        with suppress(trio.ClosedResourceError):
            async for piece in process.handle.stdout:
                if len(process.output) < RECORDED_LIMIT:
                    self._on_output(process.life, bytes(piece))
                if len(process.output) < OUTPUT_LIMIT:
                    process.output += piece

    def _ended(self, process: Process, code: int) -> None:
        process.exited = True
        self._quiescence.ended(id(process), trio.current_time())
        self.exits.append(Exit(process.life.name, code, process.ending))
        self._on_exit(process.life, code)

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


_ALLOWED: list[bool] = []


def _isolates() -> bool:
    """Return whether the system allows mount namespaces."""
    if not _ALLOWED:
        code = (
            "import sys, runpy; m = runpy.run_path(sys.argv[1]); sys.exit(0 if m['enter']() else 1)"
        )
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c", code, launcher.__file__],
                capture_output=True,
                check=False,
                timeout=10,
            )
            _ALLOWED.append(done.returncode == 0)
        except (OSError, subprocess.SubprocessError):
            _ALLOWED.append(False)
    return _ALLOWED[0]


def _sample(pid: int) -> Sample | None:
    """Return the use of the processor by a process and those that it started; None where the system does not tell."""
    if not pid:
        return None
    total, runnable = 0, False
    waiting = [pid]
    try:
        while waiting:
            folder = Path(f"/proc/{waiting.pop()}/task")
            for task in folder.iterdir():
                total += int((task / "schedstat").read_bytes().split()[0])
                state = (task / "stat").read_bytes().rpartition(b")")[2].split()[0]
                runnable = runnable or state in (b"R", b"D")
                waiting += [int(each) for each in (task / "children").read_bytes().split()]
    except (OSError, IndexError, ValueError):
        return None if not total else Sample(total, runnable)
    return Sample(total, runnable)
