"""Another cluster's objects in a served cluster, once or for as long as it is wanted, or in a record file.

The other cluster is read with `kubectl get --raw`: a list of each kind and, to follow it, a watch from there. Only what
a scheduler looks at comes along: the kinds of `WATCHED`, in their order, each listed before the next one begins.

Upstream: kubernetes-sigs/kube-scheduler-simulator, simulator/oneshotimporter, simulator/syncer, simulator/recorder and
simulator/resourceapplier.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlencode

import trio
from attrs import define, field, frozen

from controlplane.api.json_text import compact
from controlplane.errors import UsageError
from controlplane.scenarios.inputs.manifests import describe
from controlplane.scenarios.inputs.simulator_files import (
    ADD,
    DELETE,
    KINDS,
    UPDATE,
    WATCHED,
    Change,
    change_line,
    replayed,
)
from controlplane.serving.asking import exchange
from controlplane.serving.signals import stop_on_signal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import TextIO

    from controlplane.apiserver.http.kubeconfig import Address
    from controlplane.scenarios.inputs.simulator_files import Kind

__all__ = ["Record", "Served", "Source", "Target", "sync"]

EVENTS: Final = {"ADDED": ADD, "MODIFIED": UPDATE, "DELETED": DELETE}
NO_ACCOUNT: Final = "error looking up service account"
TRIES: Final = 50
PAUSE_S: Final = 0.2
AGAIN_S: Final = 1.0
Tree = dict[str, Any]


class Target(Protocol):
    """A receiver of the other cluster's changes."""

    async def take(self, kind: Kind, event: str, tree: Tree) -> str:
        """Take one change; return the problem with it, "" for none."""

    def listed(self) -> None:
        """Note that the objects of the first lists have been taken."""


@frozen
class Source:
    """The cluster to read, by the words of kubectl that lead to it."""

    kubectl: Sequence[str]
    selector: str = ""

    def _words(self, kind: Kind, **query: str) -> list[str]:
        if self.selector:
            query = {"labelSelector": self.selector, **query}
        asked = f"{kind.path}?{urlencode(query)}" if query else kind.path
        return [*self.kubectl, "get", "--raw", asked]

    async def list(self, kind: Kind) -> tuple[str, list[Tree]]:
        """The version of a list, and its objects. Raises UsageError with kubectl's words."""
        done = await trio.run_process(
            self._words(kind), capture_stdout=True, capture_stderr=True, check=False
        )
        if done.returncode:
            raise UsageError(f"import resource {kind.resource}: {_last_line(done.stderr)}")
        found = json.loads(done.stdout)
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        items = [{**head, **each} for each in found.get("items") or ()]
        return found["metadata"]["resourceVersion"], items

    async def watch(
        self, kind: Kind, version: str, take: Callable[[str, Tree], Awaitable[bool]]
    ) -> None:
        """Pass the changes of a kind after a version on, until the server ends the watch or `take` wants no more."""
        words = self._words(kind, watch="true", allowWatchBookmarks="true", resourceVersion=version)
        run = partial(
            trio.run_process, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
        )
        async with trio.open_nursery() as nursery:
            process = await nursery.start(run, words)
            rest, going = b"", True
            async for data in process.stdout:
                *lines, rest = (rest + data).split(b"\n")
                for line in filter(None, lines):
                    found = json.loads(line)
                    going = going and await take(found["type"], found["object"])
                if not going:
                    break
            nursery.cancel_scope.cancel()


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "kubectl failed"


@define
class Served:
    """A served cluster that takes the changes, as the simulator's resource applier makes them."""

    address: Address

    async def take(self, kind: Kind, event: str, tree: Tree) -> str:
        """Create, update or delete the object."""
        try:
            wanted = await trio.to_thread.run_sync(self._replayed, event, tree)
        except UsageError as error:
            return f"{describe(tree)}: {error}"
        if wanted is None:
            return ""
        path = kind.path_of(wanted)
        method = {ADD: "POST", UPDATE: "PUT", DELETE: "DELETE"}[event]
        if event == ADD:
            path = path.rpartition("/")[0]
        body = None if event == DELETE else wanted
        for _ in range(TRIES):
            code, answer = await self._ask(method, path, body)
            if NO_ACCOUNT not in answer:
                break
            await trio.sleep(PAUSE_S)  # the account of a new namespace is on its way
        missing = code == 404 and event != ADD  # preempted here, or deleted by a user
        if code < 300 or missing or (code == 409 and event == ADD):
            return ""
        return f"{describe(tree)}: {answer}"

    def listed(self) -> None:
        """Do nothing: the objects of the first lists are taken like later changes."""

    def _replayed(self, event: str, tree: Tree) -> Tree | None:
        return replayed(Change(0, event, tree, 0), self._claim_uid)

    def _claim_uid(self, namespace: str, name: str) -> str:
        """The uid of a claim here. Raises UsageError for one that is not there."""
        claim = {"metadata": {"namespace": namespace, "name": name}}
        code, text = exchange(self.address, "GET", KINDS["pvcs"].path_of(claim))
        if code != 200:
            raise UsageError(f"its claim {namespace}/{name} is not there")
        return str(json.loads(text)["metadata"]["uid"])

    async def _ask(self, method: str, path: str, body: Tree | None) -> tuple[int, str]:
        """The code of an answer, and its message if it is a refusal."""
        data = None if body is None else json.dumps(body).encode()
        ask = partial(exchange, self.address, method, path, data)
        code, text = await trio.to_thread.run_sync(ask)
        if code < 300:
            return code, ""
        try:
            return code, str(json.loads(text)["message"])
        except (ValueError, KeyError, TypeError):
            return code, f"refused with {code}"


@define
class Record:
    """A record file, to which the changes are added with the time at which they came.

    The objects of the first lists have one time, however long the lists take.
    """

    file: TextIO
    _start: int = field(factory=time.time_ns)

    def listed(self) -> None:
        """Give later changes their own times."""
        self._start = 0

    async def take(self, _kind: Kind, event: str, tree: Tree) -> str:
        """Write a line."""
        line = change_line(event, tree, self._start or time.time_ns())
        self.file.write(compact(line).decode("utf-8", "replace") + "\n")
        self.file.flush()
        return ""


@define
class _Place:
    """The version up to which a kind has been followed; "" if it has to be listed again."""

    version: str


@define
class _Sync:
    source: Source
    target: Target
    complain: Callable[[str], None]
    counts: Counter[str] = field(factory=Counter)
    known: dict[str, dict[tuple[str, str], None]] = field(factory=dict)

    async def begin(self, kind: Kind) -> str:
        """Take the objects of a list, as additions or as updates of known ones; return its version."""
        version, items = await self.source.list(kind)
        known = self.known.setdefault(kind.resource, {})
        for tree in items:
            meta = tree["metadata"]
            event = UPDATE if (meta.get("namespace", ""), meta["name"]) in known else ADD
            await self.take(kind, event, tree)
        return version

    async def follow(self, kind: Kind, version: str) -> None:
        """Take the changes after a version, for ever; the kind is listed again where a watch cannot go on."""
        place = _Place(version)

        async def take(event: str, tree: Tree) -> bool:
            if event == "ERROR":
                place.version = ""
                return False
            place.version = tree["metadata"]["resourceVersion"]
            if event in EVENTS:
                await self.take(kind, EVENTS[event], tree)
            return True

        while True:
            await self.source.watch(kind, place.version, take)
            await trio.sleep(AGAIN_S)
            while not place.version:
                try:
                    place.version = await self.begin(kind)
                except UsageError as error:
                    self.complain(str(error))
                    await trio.sleep(AGAIN_S)

    async def take(self, kind: Kind, event: str, tree: Tree) -> None:
        """Pass on one change."""
        meta = tree["metadata"]
        key = meta.get("namespace", ""), meta["name"]
        known = self.known.setdefault(kind.resource, {})
        if event == DELETE:
            known.pop(key, None)
        else:
            known[key] = None
        problem = await self.target.take(kind, event, tree)
        self.counts["refused" if problem else event] += 1
        if problem:
            self.complain(problem)


async def sync(
    source: Source,
    target: Target,
    complain: Callable[[str], None],
    *,
    follow: bool,
    seconds: float | None = None,
) -> Counter[str]:
    """Bring the objects of a cluster to a target; with `follow` also its changes, until SIGINT, SIGTERM or `seconds`.

    `complain` is called with a line for each object that is refused, which ends nothing.

    Returns:
        The numbers of additions, updates, deletions and refusals.

    Raises:
        UsageError: a kind cannot be listed.
    """
    state = _Sync(source, target, complain)
    unlisted: UsageError | None = None
    async with trio.open_nursery() as nursery:
        if follow:
            await nursery.start(stop_on_signal, lambda _name: nursery.cancel_scope.cancel())
            if seconds is not None:
                nursery.cancel_scope.deadline = trio.current_time() + seconds
        for kind in WATCHED:
            try:
                version = await state.begin(kind)
            except UsageError as error:  # kept, for a nursery would wrap it
                unlisted = error
                nursery.cancel_scope.cancel()
                break
            if follow:
                nursery.start_soon(state.follow, kind, version)
        target.listed()
    if unlisted is not None:
        raise unlisted
    return state.counts
