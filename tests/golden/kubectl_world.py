"""An API server alone in a world, served over plain HTTP, with every request written down.

What the recordings of kubectl were made with: no kubelets, no controllers, no scheduler. The rim,
the inlet and the actor are those of `controlplane serve`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import trio
from attrs import evolve

from actors import Context, World
from actors.pace import Pacer
from controlplane.api.request import User
from controlplane.apiserver.front.answering import HttpAnswer
from controlplane.apiserver.front.answering import answer as serve
from controlplane.apiserver.http.authentication import Access
from controlplane.apiserver.http.message import StreamStart
from controlplane.apiserver.loops import server as apiserver
from controlplane.apiserver.loops.activity import Activity
from controlplane.apiserver.loops.http_listener import Listener
from controlplane.apiserver.options import ServerOptions
from controlplane.apiserver.requests.caches import CacheMade
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.requests.server import ApiServer
from controlplane.apiserver.storage.store import Store
from tests.golden.answer_crud import ADMIN, ALPHABET, FIRST_REVISION, RECORDED_BUILD

Json = Any

TOOLS = Path(__file__).parents[2] / ".tools"
"""Where `dev.py check` unpacks an old kubectl, and `dev.py kubectls` others, if they can be had."""
COMMAND_SECONDS = 8.0
"""A command that takes longer is ended; the recordings show that as exit status -1."""
AT_ONCE = 4
"""So many cases, each with a server of its own: half of the time their commands wait for a time limit."""
KEPT_HEADERS = ("Accept", "Content-Type", "Upgrade", "X-Stream-Protocol-Version")
_DISCOVERY = re.compile(r"/api(/v1)?|/apis(/[^/]+(/[^/]+)?)?")


@cache
def kubectl_of(release: str) -> str | None:
    """The path of a kubectl of that release ("1.32"), None if there is none; asked by its version.

    The environment variable KUBECTL names one; otherwise `.tools` and the search path are looked
    through, and the folders that entries of it link to, where some vendors keep one per release.
    """
    for candidate in candidates():
        found = version_of(candidate)
        if found.startswith(f"v{release}.") and "-dispatcher" not in found:
            return candidate
    return None


def candidates() -> list[str]:
    """Programs that may be kubectls, in the order in which they are tried."""
    found: dict[str, None] = {}
    if named := os.environ.get("KUBECTL"):
        found[named] = None
    for form in ("*/usr/bin/kubectl", "kubectl-*/kubectl"):
        found |= dict.fromkeys(str(path) for path in sorted(TOOLS.glob(form)))
    for folder in os.get_exec_path():
        plain = shutil.which("kubectl", path=folder)
        if plain is not None:
            found[plain] = None
            home = Path(plain).resolve().parent
            for beside in sorted(home.glob("kubectl.*")):
                found[str(beside)] = None
    return list(found)


@cache
def version_of(program: str) -> str:
    """`v1.32.5`; "" if it does not say."""
    try:
        done = subprocess.run(
            [program, "version", "--client", "-o", "json"],
            capture_output=True,
            timeout=20,
            check=False,
        )
        told = json.loads(done.stdout)["clientVersion"]["gitVersion"]
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired):
        return ""
    return str(told)


class Asked:
    """One request that arrived, and the status that it got."""

    def __init__(
        self, method: str, path: str, query: Json, headers: list[tuple[str, str]], body: bytes
    ) -> None:
        self.method, self.path, self.query, self.body = method, path, query, body
        self.headers: dict[str, str] = {}
        for name, value in headers:
            self.headers.setdefault(name, value)
        self.status: int | None = None

    @property
    def discovery(self) -> bool:
        return bool(_DISCOVERY.fullmatch(self.path))

    def tree(self) -> Json:
        """As the recordings show it."""
        out: Json = {"method": self.method, "path": self.path}
        kept = {
            name: self.headers[name.lower()]
            for name in KEPT_HEADERS
            if name.lower() in self.headers
        }
        if kept:
            out["headers"] = kept
        if self.query and not self.path.startswith("/openapi/v3/"):
            out["query"] = {
                key: value[0] if len(value) == 1 else value for key, value in self.query.items()
            }
            if selector := out["query"].get("fieldSelector"):
                out["query"]["fieldSelector"] = ",".join(sorted(selector.split(",")))
        if self.body:
            try:
                out["body"] = json.loads(self.body)
            except ValueError:
                out["bodyText"] = self.body.decode("utf-8", "replace")
        if not self.path.startswith("/openapi/v3"):
            out["status"] = self.status
        return out


class RecordingListener(Listener):
    """The rim's listener; it writes down what is asked."""

    asked: list[Asked]

    def ask(self, method, path, query, headers, body, user, answered):  # type: ignore[no-untyped-def]
        entry = Asked(method, path, query, headers, body)
        self.asked.append(entry)

        def note(piece: Any) -> None:
            if entry.status is None:
                if isinstance(piece, HttpAnswer):
                    entry.status = piece.code
                elif isinstance(piece, StreamStart):
                    entry.status = 200
            answered(piece)

        return super().ask(method, path, query, headers, body, user, note)


class Everybody(Access):
    """Whoever asks is the recordings' user: kubectl sends no token over plain HTTP."""

    def user(self, authorization: str) -> User:
        return ADMIN


class Session:
    """A served API server. `suffixes` are the generated name endings, newest last."""

    def __init__(self, start: int, **options: Any) -> None:
        """`options` are those of the server that differ from the recordings'."""
        self.start = start
        self.suffixes: list[str] = []
        self._uids = 0
        self._made: dict[tuple[Any, Any], str] = {}
        store = Store(FIRST_REVISION)
        store.compacted = FIRST_REVISION
        components = {"scheduler": "", "controller-manager": "", "etcd-0": ""}
        for name, port in (("controller-manager", 10257), ("scheduler", 10259)):
            place = f"127.0.0.1:{port}"
            components[name] = (
                f'Get "https://{place}/healthz": dial tcp {place}: connect: connection refused'
            )
        self.options = ServerOptions(
            track_fields=True, build=RECORDED_BUILD, components=components, **options
        )
        self.core = ApiServer(store, uid=self._uid, suffix=self._suffix, options=self.options)
        self.core.bootstrap(start)
        self.listener: RecordingListener | None = None
        self.port = 0

    def _uid(self) -> str:
        self._uids += 1
        return f"aaaaaaaa-0000-4000-8000-{self._uids:012}"

    def _suffix(self) -> str:
        number = len(self.suffixes)
        digits = [number // 27**place % 27 for place in (2, 1, 0)]
        text = "zx" + "".join(ALPHABET[digit] for digit in digits)
        self.suffixes.append(text)
        return text

    def send(self, step: Json) -> None:
        """A request of the set-up, before anything is served."""
        headers = {
            "content-type": "application/json",
            "accept": "application/json",
            "user-agent": "golden/1.0",
        }
        headers |= {key.lower(): value for key, value in step.get("headers", {}).items()}
        query = {key: [str(value)] for key, value in step.get("query", {}).items()}
        body = b""
        if "body" in step:
            body = json.dumps(self._with_uids(step["body"]), sort_keys=True).encode()
        http = HttpRequest(step["method"], step["path"], query, headers, body, ADMIN)
        result = serve(self.core, http, self.start)
        self.core.advance()
        assert isinstance(result, HttpAnswer) and result.code < 300, (step, result)
        made = result.tree
        if isinstance(made, dict) and "uid" in made.get("metadata", {}):
            self._made[made["kind"], made["metadata"]["name"]] = made["metadata"]["uid"]

    def _with_uids(self, value: Json) -> Json:
        """References to objects of the set-up have uids that only the server knows."""
        if isinstance(value, list):
            return [self._with_uids(item) for item in value]
        if not isinstance(value, dict):
            return value
        out = {key: self._with_uids(item) for key, item in value.items()}
        if out.get("uid") == "<uid>":
            out["uid"] = self._made[out.get("kind"), out.get("name")]
        return out

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Serve on a free port, in real time."""
        world = World(step_limit=1 << 62)
        world.actor("apiserver", apiserver.run, self._served, self.start, Activity())
        inlet = world.inlet()
        inlet.keep = False
        pace = Pacer(1.0)
        self.listener = RecordingListener(inlet, "apiserver", self.access(pace), pace=pace)
        self.listener.asked = []
        self.port = await self.listener.open("127.0.0.1", 0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.listener.serve)
            done = trio.Event()

            async def run() -> None:
                await world.run_async(pace=pace)
                done.set()

            nursery.start_soon(run)
            yield
            inlet.stop("the case is over")
            await done.wait()
            await self.listener.close(0.1)
            nursery.cancel_scope.cancel()

    def access(self, pace: Pacer) -> Access:
        """Return who may ask."""
        return Everybody()

    def _served(
        self, ctx: Context, heard: Store | None = None, cache_made: CacheMade | None = None
    ) -> ApiServer:
        """The server that is served: it knows its address, and what users may do."""
        options = evolve(self.options, authorize=True, address=f"127.0.0.1:{self.port}")
        self.core = ApiServer(
            self.core.store,
            uid=self._uid,
            suffix=self._suffix,
            options=options,
            cache_made=cache_made,
        )
        return self.core

    def kubeconfig(self, namespace: str) -> Json:
        """How kubectl reaches it."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "x",
            "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "x", "user": {}}],
            "contexts": [
                {"name": "x", "context": {"cluster": "x", "user": "x", "namespace": namespace}}
            ],
        }


class Done:
    """How a command ended."""

    def __init__(self, code: int, stdout: str, stderr: str, asked: list[Asked]) -> None:
        self.code, self.stdout, self.stderr, self.asked = code, stdout, stderr, asked


async def command(
    session: Session,
    program: str,
    argv: list[str],
    folder: Path,
    home: Path,
    environment: Mapping[str, str],
    stdin: str = "",
) -> Done:
    """Run kubectl once."""
    assert session.listener is not None
    before = len(session.listener.asked)
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "KUBECONFIG": str(home / "kubeconfig"),
        "TZ": "UTC",
        "LANG": "C.UTF-8",
        **environment,
    }
    process = None
    with trio.move_on_after(COMMAND_SECONDS):
        process = await trio.run_process(
            [program, *argv],
            stdin=stdin.encode(),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            cwd=folder,
            env=variables,
        )
    asked = session.listener.asked[before:]
    if process is None:
        return Done(-1, "", "", asked)
    return Done(
        process.returncode,
        process.stdout.decode("utf-8", "replace"),
        process.stderr.decode("utf-8", "replace"),
        asked,
    )


def now_ns() -> int:
    """The present, in whole seconds: kubectl computes ages with its own clock."""
    return time.time_ns() // 10**9 * 10**9
