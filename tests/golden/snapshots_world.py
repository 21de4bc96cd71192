"""A world with snapshot controller, sidecar and driver, and a user who follows a recorded script.

What the world did is told in the recordings' words: uids, hashes, times and the driver's ids stand as
placeholders that say what they are of.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from typing import Any, NamedTuple

from attrs import evolve

from actors import Context
from actors.log import INFO, EventLog
from actors.strategies.random_walk import RandomWalk
from controlplane.api.request import ADMIN, JSON, JSON_PATCH, MERGE_PATCH, Request
from controlplane.apiserver.requests.server import ApiServer
from controlplane.apiserver.storage.store import Store
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import Client
from controlplane.cluster import Cluster, ClusterConfig
from controlplane.cluster_config import APISERVER, EPOCH_NS
from controlplane.controllers.lifecycle.garbagecollector.controller import (
    GarbageCollectorController,
)
from controlplane.controllers.loops import csi_driver
from controlplane.controllers.loops.csi_driver import ClearFaults, DriverProbe, OpenGate
from controlplane.controllers.storage.csi.faults import Fault
from controlplane.controllers.storage.csi.hostpath import (
    CAPABILITIES,
    DriverOptions,
    Group,
    HostpathDriver,
    Snapshot,
    Volume,
)
from controlplane.controllers.storage.csi_snapshotter.controller import CsiSnapshotter
from controlplane.controllers.storage.csi_snapshotter.shared import SidecarFlags
from controlplane.controllers.storage.snapshot.controller import SnapshotController
from controlplane.controllers.storage.snapshot.shared import Flags
from controlplane.controllers.storage.volume.binder import VolumeBinderController
from controlplane.controllers.storage.volume.csi_provisioner import CsiProvisioner, ProvisionerFlags
from controlplane.controllers.storage.volume.protection import (
    ClaimProtectionController,
    VolumeProtectionController,
)
from tests.golden.answer_crd import prepare

Json = Any
SECOND = 1_000_000_000
MS = 1_000_000


class Pace(NamedTuple):
    """How long messages take: of the snapshot controller, of the sidecar, of the others, to the driver.

    And how long the user waits between two requests.
    """

    controller_ns: int
    sidecar_ns: int
    others_ns: int
    driver_ns: int
    user_ns: int = 20 * MS


PACES = (
    Pace(MS, MS, MS, 4 * MS),
    Pace(MS, MS // 2, MS, 4 * MS),
    Pace(MS, 2 * MS, MS, 4 * MS),
    Pace(3 * MS, MS, MS, MS),
    Pace(MS, MS // 3, MS, MS // 2),
    Pace(2 * MS, MS, 5 * MS, 12 * MS),
    Pace(MS, MS, MS, MS, MS),
    Pace(4 * MS, MS, MS, 2 * MS, 3 * MS),
    Pace(2 * MS, MS, MS, MS // 10),
    Pace(6 * MS, MS // 4, MS, MS // 10),
)
"""What happens depends on who is faster; the recordings show what came of a few runs on one machine."""
SPREADS = (2, 12, 6)
"""In drawn orders a message takes up to that many times longer."""
POLL_NS = 20 * MS
LOOPING = 60
"""More calls than any scenario makes that comes to an end."""
OBSERVER_NS = 250 * MS
"""The recordings' observer noticed that a wait was over, and stopped, that much later."""
DEFAULT_DRIVER = "hostpath.csi.k8s.io"
PLACES = {
    "PersistentVolume": ("", "v1", "persistentvolumes", "/registry/persistentvolumes/"),
    "PersistentVolumeClaim": (
        "",
        "v1",
        "persistentvolumeclaims",
        "/registry/persistentvolumeclaims/",
    ),
    "Secret": ("", "v1", "secrets", "/registry/secrets/specs/"),
    "StorageClass": ("storage.k8s.io", "v1", "storageclasses", "/registry/storageclasses/"),
}
WATCHED = ("PersistentVolume", "PersistentVolumeClaim")
for _domain, _kinds in (
    ("snapshot", ("VolumeSnapshot", "VolumeSnapshotContent", "VolumeSnapshotClass")),
    (
        "groupsnapshot",
        ("VolumeGroupSnapshot", "VolumeGroupSnapshotContent", "VolumeGroupSnapshotClass"),
    ),
):
    for _kind in _kinds:
        _group = f"{_domain}.storage.k8s.io"
        _plural = _kind.lower() + ("es" if _kind.endswith("s") else "s")
        PLACES[_kind] = (_group, "v1", _plural, f"/registry/{_group}/{_plural}/")
        if not _kind.endswith("Class"):
            WATCHED += (_kind,)
COMPONENTS = {
    "golden": "user",
    "persistentvolume-binder-controller": "persistent-volume-binder",
    "persistentvolumeclaim-protection-controller": "pvc-protection-controller",
    "persistentvolume-protection-controller": "pv-protection-controller",
    "csi-snapshotter-2": "csi-snapshotter",
    "external-provisioner": "csi-provisioner",
}
CLOCK = re.compile(r"2026-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
DROPPED = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")


@cache
def _base() -> Store:
    """A store with the definitions and the namespaces of all cases."""
    store = Store()
    uids = iter(f"bbbbbbbb-0000-4000-8000-{number:012}" for number in range(10**6))
    server = ApiServer(store, uid=lambda: next(uids), suffix=str)
    server.bootstrap(EPOCH_NS)
    prepare(server, EPOCH_NS)
    for name in ("demo-namespace", "other-namespace"):
        tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        server.handle(Request("create", "", "v1", "namespaces", body=tree), EPOCH_NS)
    return store


def _request(verb: str, tree: Json, sub: str = "", **more: Any) -> Request:
    kind, metadata = tree["kind"], tree.get("metadata", tree)
    group, version, resource, _ = PLACES[kind]
    if "apiVersion" in tree:
        version = tree["apiVersion"].rpartition("/")[2]
    name = "" if verb == "create" else metadata["name"]
    return Request(
        verb,
        group,
        version,
        resource,
        metadata.get("namespace", ""),
        name,
        sub,
        user_agent="golden",
        user=ADMIN,
        **more,
    )


def _initial(given: Json) -> HostpathDriver:
    options = DriverOptions(name=given.get("name", DEFAULT_DRIVER), groups=not given.get("noGroup"))
    capabilities = list(CAPABILITIES)
    for rule in given.get("rules", ()):
        if rule["method"] == "ControllerGetCapabilities":
            capabilities = [each["rpc"]["type"] for each in rule["override"]["capabilities"]]
    driver = HostpathDriver(evolve(options, call_ns=0, capabilities=capabilities))
    for each in given.get("volumes", ()):
        driver.volumes[each["id"]] = Volume(each["id"], each["id"], each["size"])
    for each in given.get("snapshots", ()):
        made = each.get("time", 1_734_393_600 * SECOND)
        made = 1_734_393_600 * SECOND if isinstance(made, str) else made
        ready = 2**62 if each.get("ready") is False else 0
        driver.snapshots[each["id"]] = Snapshot(
            each["id"],
            each["id"],
            each["volume"],
            each["size"],
            made,
            group=each.get("group", ""),
            ready_ns=ready,
        )
    for each in given.get("groups", ()):
        driver.groups[each["id"]] = Group(
            each["id"],
            each["id"],
            tuple(each["volumes"]),
            tuple(each["snapshots"]),
            1_734_393_600 * SECOND,
        )
    return driver


def _fault(given: Json) -> Fault:
    override = json.loads(json.dumps(given.get("override", {})), parse_int=int)
    return Fault(
        given["method"],
        count=given.get("count"),
        skip=given.get("skip", 0),
        code=given.get("code", "OK"),
        message=given.get("message", ""),
        when=given.get("when", "before"),
        delay_ns=round(given.get("delay", 0) * SECOND),
        gate=given.get("gate", ""),
        override=_numbers(override),
    )


def _numbers(value: Json) -> Json:
    """Sizes are numbers here; JSON has them as text."""
    if isinstance(value, dict):
        return {
            key: int(each) if key == "size_bytes" and each is not None else _numbers(each)
            for key, each in value.items()
        }
    return [_numbers(each) for each in value] if isinstance(value, list) else value


def _arguments(args: list[str]) -> dict[str, str]:
    found = {}
    for each in args:
        key, _, value = each.removeprefix("--").partition("=")
        found[key] = value
    return found


class SnapshotWorld:
    """One case."""

    def __init__(self, case: Json, pace: Pace = PACES[0], seed: int | None = None) -> None:
        self.case = case
        self.pace = pace
        self.refused: list[Json] = []
        self.controllers: list[SnapshotController] = []
        self.began_revision = 0
        self.done = False
        self.uid_flags: tuple[int, ...] = ()
        given = case.get("drivers") or [case["driver"]]
        own: list[Any] = []
        if not case.get("volumeControllersStopped"):
            own += [VolumeBinderController]
        own += [ClaimProtectionController, VolumeProtectionController, GarbageCollectorController]
        own.append(self._controller(case))
        self.sidecars = []
        for number, each in enumerate(given):
            name = "csi-snapshotter" if not number else f"csi-snapshotter-{number + 1}"
            driver = each.get("name", DEFAULT_DRIVER)
            self.sidecars.append(name)
            own.append(CsiSnapshotter.serving(self._sidecar_flags(case, driver), name))
        own += self._provisioners(case, given)
        self.log = EventLog(INFO)
        self.cluster = Cluster(
            ClusterConfig(
                kubelets=False,
                heartbeats=False,
                controllers=False,
                own_controllers=own,
                store=_base().fork(),
            ),
            log=self.log,
            strategy=None if seed is None else RandomWalk(seed),
        )
        self.probes = []
        self.drivers = []
        for each in given:
            probe = DriverProbe()
            self.probes.append(probe)
            name = each.get("name", DEFAULT_DRIVER)
            self.drivers.append(name)
            driver = _initial(each)
            self.cluster.world.actor(name, csi_driver.run, EPOCH_NS, driver.options, probe, driver)
        self.own = [kind.name for kind in own]
        if seed is not None:  # drawn orders: no two messages take equally long either
            spread = SPREADS[seed % len(SPREADS)]
            for name in self.own:
                spread_ns = spread * self._latency(name)
                self.cluster.world.link(name, APISERVER, spread_ns=spread_ns)
        self.cluster.user("golden", self._user)

    def _controller(self, case: Json) -> Any:
        args = _arguments(case.get("snapshotController", {}).get("args", []))
        flags = Flags(
            groups="CSIVolumeGroupSnapshot=false" not in args.get("feature-gates", ""),
            prevent_volume_mode_conversion=args.get("prevent-volume-mode-conversion") != "false",
        )
        made = self.controllers

        class Configured(SnapshotController):
            """With the case's flags; the harness looks at what it counted."""

            def __init__(self, host: Any, caches: Any) -> None:
                super().__init__(host, caches)
                made.append(self)

        Configured.flags = flags
        return Configured

    def _sidecar_flags(self, case: Json, driver: str) -> SidecarFlags:
        args = _arguments(case.get("sidecar", {}).get("args", []))
        length = int(args.get("snapshot-name-uuid-length", -1))
        group_length = int(args.get("groupsnapshot-name-uuid-length", -1))
        self.uid_flags = tuple(each for each in (length, group_length) if each >= 0)
        timeout = args.get("timeout", "60s")
        return SidecarFlags(
            driver,
            driver,
            groups="CSIVolumeGroupSnapshot=false" not in args.get("feature-gates", ""),
            timeout_ns=int(timeout.removesuffix("s")) * SECOND,
            name_prefix=args.get("snapshot-name-prefix", "snapshot"),
            name_uuid_length=length,
            group_name_prefix=args.get("groupsnapshot-name-prefix", "groupsnapshot"),
            group_name_uuid_length=group_length,
            extra_create_metadata="extra-create-metadata" in args,
        )

    def _provisioners(self, case: Json, given: Json) -> list[Any]:
        if "provisioner" not in case:
            return []
        driver = given[0].get("name", DEFAULT_DRIVER)
        return [CsiProvisioner.serving(ProvisionerFlags(driver, driver))]

    # ------------------------------------------------------------------ the script

    def run(self) -> SnapshotWorld:
        result = self.cluster.world.run("bare", until_ns=900 * SECOND)
        if not self.done or result.verdict not in ("quiescent", "until"):
            raise AssertionError(f"{result.verdict}: {result.reason}")
        return self

    async def _user(self, ctx: Context) -> None:
        client = Client(ctx)
        self._ctx = ctx
        self._slow_down(ctx, self.own)
        for name, sidecar in zip(self.drivers, self.sidecars, strict=True):
            ctx.faults.delay(name, sidecar, self.pace.driver_ns)
        if self.case.get("lateSidecar"):
            for name in self.sidecars:
                ctx.faults.crash(name)
        await ctx.sleep(SECOND)
        for tree in self.case["setup"]:
            made = await client.call(_request("create", tree, body=tree))
            if tree.get("status") and self.case.get("volumeControllersStopped"):
                body = {**made.tree, "status": tree["status"]}
                await client.call(_request("update", body, "status", body=body))
        await self._quiet(ctx, SECOND, 30 * SECOND)
        self.began_revision = self.cluster.store.revision
        for step in self.case["steps"]:
            try:
                await self._step(ctx, client, step)
            except ApiError as error:
                self.refused.append({"at": step["at"], "code": error.code, "message": str(error)})
        end = self.case.get("end") or {}
        if "observe" in end:
            await ctx.sleep(round(end["observe"] * SECOND) + OBSERVER_NS)
        else:
            quiet, most = end.get("settle", 2), end.get("max", 25)
            await self._quiet(ctx, round(quiet * SECOND), round(most * SECOND), calls=True)
        for name in (*self.own, *self.drivers):
            ctx.faults.crash(name)
        self.done = True

    def _slow_down(self, ctx: Context, names: list[str]) -> None:
        for name in names:
            ctx.faults.delay(name, APISERVER, self._latency(name))

    def _latency(self, name: str) -> int:
        if name == SnapshotController.name:
            return self.pace.controller_ns
        return self.pace.sidecar_ns if name in self.sidecars else self.pace.others_ns

    async def _step(self, ctx: Context, client: Client, step: Json) -> None:
        await ctx.sleep(self.pace.user_ns)
        step = self._named(step)
        match step["do"]:
            case "create":
                await client.call(_request("create", step["object"], body=step["object"]))
            case "patch":
                kind = JSON_PATCH if isinstance(step["patch"], list) else MERGE_PATCH
                await client.call(
                    _request("patch", step["target"], body=step["patch"], content_type=kind)
                )
            case "delete":
                await client.call(_request("delete", step["target"], content_type=JSON))
            case "driver":
                message: Any = ClearFaults()
                if "fault" in step:
                    message = _fault(step["fault"])
                elif "open" in step:
                    message = OpenGate(step["open"])
                await ctx.ask(self.drivers[0], message)
            case "wait":
                if not await self._until(ctx, step["until"], round(step["max"] * SECOND)):
                    self.refused.append({"at": step["at"], "timeout": True})
            case "settle":
                most = round(step.get("max", 60) * SECOND)
                if not await self._quiet(ctx, round(step["quiet"] * SECOND), most):
                    self.refused.append({"at": step["at"], "busy": True})
            case "sleep":
                await ctx.sleep(round(step["seconds"] * SECOND))
            case "stop":
                for name in self._processes(step["process"]):
                    ctx.faults.crash(name)
            case "start" | "restart":
                for name in self._processes(step["process"]):
                    if step["do"] == "restart":
                        ctx.faults.crash(name)
                    ctx.faults.restart(name)
            case other:
                raise AssertionError(other)

    def _processes(self, process: str) -> list[str]:
        return self.sidecars if process == "csi-snapshotter" else [process]

    def _named(self, value: Json) -> Json:
        """Placeholders in a script replaced by what they stand for now."""
        text = json.dumps(value)
        for match in re.findall(r"<uid:([^/<>]+)/([^<>]+)>", text):
            found = self._stored(match[0], match[1])
            if found is not None:
                text = text.replace(f"<uid:{match[0]}/{match[1]}>", found.uid)
        for group, handle in re.findall(r"<hash:VolumeGroupSnapshot/([^<>+]+)\+([^<>]+)>", text):
            found = self._stored("VolumeGroupSnapshot", group)
            if found is not None:
                digest = hashlib.sha256((found.uid + handle).encode()).hexdigest()
                text = text.replace(f"<hash:VolumeGroupSnapshot/{group}+{handle}>", digest)
        return json.loads(text)

    def _stored(self, kind: str, name: str) -> Any:
        """The object of this name, or the last one there was."""
        last = None
        for event in self.cluster.store.keyspace(PLACES[kind][3]).events_after(0):
            if event.new is not None and event.new.name == name:
                last = event.new
        return last

    # ------------------------------------------------------------------ waiting

    async def _until(self, ctx: Context, until: Json, most: int) -> bool:
        end = ctx.now + most
        while not self._holds(until):
            if ctx.now >= end:
                return False
            await ctx.sleep(POLL_NS)
            until = self._named(until)
        return True

    def _holds(self, until: Json) -> bool:
        if "rpc" in until:
            calls = [
                call
                for probe in self.probes
                for call in probe.calls
                if call.method == until["rpc"] and (until["state"] == "begun" or call.ended)
            ]
            return len(calls) >= until["count"]
        if "event" in until:
            reasons = [
                obj.tree["reason"]
                for obj in self.cluster.objects("/registry/events/")
                for _ in range(obj.tree.get("count", 1))
            ]
            return reasons.count(until["event"]) >= until["count"]
        wanted = until["object"]
        value: Any = next(
            (
                obj.tree
                for obj in self.cluster.objects(PLACES[wanted["kind"]][3])
                if obj.name == wanted["name"] and obj.namespace == wanted.get("namespace", "")
            ),
            None,
        )
        if until.get("gone"):
            return value is None
        if value is None:
            return False
        for part in until.get("path", "").split("."):
            if part:
                value = value.get(part) if isinstance(value, dict) else None
        return value == until["equals"] if "equals" in until else value is not None

    def _picture(self) -> Any:
        versions = [
            obj.resource_version
            for kind in WATCHED
            for obj in self.cluster.objects(PLACES[kind][3])
        ]
        calls = [
            (len(probe.calls), sum(1 for c in probe.calls if c.ended)) for probe in self.probes
        ]
        return versions, calls

    def _calling(self) -> bool:
        return any(not call.ended for probe in self.probes for call in probe.calls)

    def _looping(self) -> bool:
        """Whether the driver is asked over and over: recordings show the first calls of that."""
        return any(len(probe.calls) > LOOPING for probe in self.probes)

    async def _quiet(self, ctx: Context, quiet: int, most: int, *, calls: bool = False) -> bool:
        """Nothing changes for so long; with `calls` no call may be under way either."""
        end, since, before = ctx.now + most, ctx.now, self._picture()
        while ctx.now < end:
            await ctx.sleep(POLL_NS)
            now = self._picture()
            if calls and self._looping():
                return False
            if now != before or (calls and self._calling()):
                before, since = now, ctx.now
            elif ctx.now - since >= quiet:
                return True
        return False
