"""The volume manager of a node that has CSI drivers: attached, mounted and unmounted as its pods come and go.

| upstream's goroutine | our task |
|---|---|
| registration of plugins | `plugins` |
| informer of CSIDriver objects | `csidrivers.reflector` |
| desired state of world populator | `volumes.populator` |
| reconciler | `volumes.reconciler` |
| one per operation | `volumes.verify`, `volumes.mount`, `volumes.unpublish`, `volumes.unstage` |

Upstream the two loops look ten times a second; passes that would find nothing are left out. Points:
`kubelet.volumes.populate` and `kubelet.volumes.reconcile` (before each volume), one for every request and
every call to a driver. Upstream: pkg/kubelet/volumemanager, pkg/volume/csi.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from actors import LinkBroken, Timeout
from controlplane.api.csi import (
    NODE_IDS,
    OK,
    UNAVAILABLE,
    CsiError,
    CsiReply,
    CsiRequest,
    attachment_name,
    capability,
    decoded,
)
from controlplane.client.errors import ApiError, is_already_exists, is_not_found
from controlplane.client.loops.clientset import NODES, Client
from controlplane.client.loops.event_recorder import reference
from controlplane.client.loops.informer import Informer
from controlplane.client.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    SECRETS,
    VOLUME_ATTACHMENTS,
    VOLUMES,
)
from controlplane.kubelet.loops.shared import RETRY_NS
from controlplane.kubelet.pod.volumes import CALL_NS, LOOP_NS, Lookup, PodVolume, PodVolumes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors import Context
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.kubelet.loops.shared import Shared

FAILURES = (ApiError, LinkBroken, CsiError, ValueError)


class VolumeManager:
    """The volumes of one kubelet's pods.

    `told` wakes the worker of a pod, by uid; `report` wakes the task that reports the node.
    """

    def __init__(
        self,
        shared: Shared,
        drivers: Sequence[str],
        told: Callable[[str], None],
        report: Callable[[], None],
    ) -> None:
        self._shared = shared
        self._drivers = tuple(drivers)
        self._told = told
        self._report = report
        self.state = PodVolumes(shared.host.mounts)
        self._news = shared.ctx.condition()
        self._work = shared.ctx.signal()
        self._pods: dict[str, Pod] = {}
        self._ended: dict[str, None] = {}
        self._known: Informer[Any] = Informer(
            shared.ctx, CSI_DRIVERS, server=shared.server, immediate=True
        )

    def start(self) -> None:
        """Start the tasks."""
        self._known.start()
        self._shared.ctx.spawn(self._register, name="plugins")
        self._shared.ctx.spawn(self._populator, name="volumes.populator")
        self._shared.ctx.spawn(self._reconciler, name="volumes.reconciler")
        self.look_again()  # mounts that a process before this one left

    # ------------------------------------------------------------------ what workers ask

    def look(self, pod: Pod, volume: str, claim: Tree) -> str | None:
        """Return whether a pod has a volume of its claim (`PodVolumes.look`)."""
        before = len(self.state.lookups)
        found = self.state.look(pod, volume, claim)
        if len(self.state.lookups) != before:
            self._pods[pod.uid] = pod
            self._news.notify_all()
        return found

    def released(self, uid: str) -> bool:
        """Return whether nothing of a pod that has ended is mounted any more; if not, that is begun."""
        if self.state.released(uid):
            self._pods.pop(uid, None)
            self._ended.pop(uid, None)
            return True
        if uid not in self._ended:
            self._ended[uid] = None
            self.state.dropped[uid] = None
            self._news.notify_all()
        return False

    def in_use(self) -> list[str]:
        """Return the volumes that the node's status shows as in use."""
        return self.state.in_use()

    def reported(self, names: Sequence[str]) -> None:
        """The node's status shows these as in use."""
        self.state.reported = tuple(names)
        self._work.notify()

    def look_again(self) -> None:
        """Something may be mounted for pods that are gone."""
        if self.state.to_unpublish():
            self._work.notify()

    # ------------------------------------------------------------------ registration

    async def _register(self, ctx: Context) -> None:
        """Have each driver say what it calls the node, and write that to the Node and to its CSINode."""
        for driver in self._drivers:
            while True:
                try:
                    answer = await self._ask(ctx, driver, "NodeGetInfo", {})
                    await self._announce(ctx, driver, answer)
                except FAILURES as error:
                    self._shared.error(f"failed to register driver {driver}: {error}")
                    await ctx.sleep(RETRY_NS, point="kubelet.volumes.register")
                else:
                    break

    async def _announce(self, ctx: Context, driver: str, info: Mapping[str, Any]) -> None:
        client, name = Client(ctx, self._shared.server), self._shared.node.name
        topology = dict((info.get("accessible_topology") or {}).get("segments") or {})
        node = (await client.get(NODES, "", name)).tree
        known = (node["metadata"].get("annotations") or {}).get(NODE_IDS) or "{}"
        ids = {**json.loads(known), driver: info["node_id"]}
        text = json.dumps(ids, sort_keys=True, separators=(",", ":"))
        change: Tree = {"annotations": {NODE_IDS: text}}
        if topology:
            change["labels"] = topology
        await client.patch(NODES, "", name, {"metadata": change})
        entry: Tree = {"name": driver, "nodeID": info["node_id"], "topologyKeys": sorted(topology)}
        if not topology:
            entry["topologyKeys"] = None
        if info.get("max_volumes_per_node"):
            entry["allocatable"] = {"count": info["max_volumes_per_node"]}
        try:
            found = (await client.get(CSI_NODES, "", name)).tree
        except ApiError as error:
            if not is_not_found(error):
                raise
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": self._shared.node.uid}
            made = {
                "apiVersion": CSI_NODES.api_version,
                "kind": "CSINode",
                "metadata": {"name": name, "ownerReferences": [owner]},
                "spec": {"drivers": [entry]},
            }
            try:
                await client.create(CSI_NODES, made)
            except ApiError as refused:
                if not is_already_exists(refused):
                    raise
            return
        others = [each for each in found["spec"].get("drivers") or () if each["name"] != driver]
        await client.update(CSI_NODES, {**found, "spec": {"drivers": [*others, entry]}})

    # ------------------------------------------------------------------ the populator

    async def _populator(self, ctx: Context) -> None:
        """Take in what pods want, and that they want it no more."""
        state = self.state
        while True:
            if not state.lookups and not state.dropped:
                await self._news.wait(idle=True, point="kubelet.volumes.populate")
            if state.dropped or len(state.errors) < len(state.lookups):
                await ctx.sleep(LOOP_NS, point="kubelet.volumes.populate")
            else:  # what cannot be found is not waited for
                await self._news.wait(RETRY_NS, idle=True, point="kubelet.volumes.populate")
            for uid in list(state.dropped):
                await ctx.point("kubelet.volumes.populate")
                del state.dropped[uid]
                state.drop(uid)
                self._changed(uid)
            for lookup in list(state.lookups.values()):
                await self._look_up(ctx, lookup)

    async def _look_up(self, ctx: Context, lookup: Lookup) -> None:
        state, pod = self.state, lookup.pod
        client = Client(ctx, self._shared.server)
        place = (pod.uid, lookup.name)
        try:
            volume = (await client.get(VOLUMES, "", lookup.volume)).tree
            if not self._known.has_synced:
                return
            claimed = (volume["spec"].get("claimRef") or {}).get("uid")
            if claimed != lookup.claim_uid:
                raise ValueError(
                    f'PV "{lookup.volume}" claimRef.UID "{claimed}" does not point to the bound '
                    f"persistentVolumeClaim"
                )
        except (ApiError, LinkBroken, ValueError) as error:
            told = f'failed to fetch PV "{lookup.volume}" from API server: {error}'
            state.errors[place] = f"error processing PVC {pod.namespace}/{lookup.claim}: {told}"
            self._told(pod.uid)
            return
        if place in state.lookups:  # the pod may have ended meanwhile
            state.take_in(lookup, self._pod_volume(lookup, volume["spec"]))
            self._changed(pod.uid)

    def _pod_volume(self, lookup: Lookup, spec: Tree) -> PodVolume | None:
        source = spec.get("csi") or {}
        driver = source.get("driver", "")
        if driver not in self._drivers:
            return None
        known = self._known.store.get(driver)
        attaches = known is None or known.tree["spec"].get("attachRequired") is not False
        return PodVolume(
            lookup.pod.uid,
            lookup.name,
            lookup.volume,
            driver,
            source["volumeHandle"],
            attaches,
            spec,
        )

    def _changed(self, uid: str) -> None:
        """The wanted or mounted volumes have changed."""
        self._told(uid)
        self._work.notify()
        if self.state.in_use() != list(self.state.reported):
            self._report()

    # ------------------------------------------------------------------ the reconciler

    async def _reconciler(self, ctx: Context) -> None:
        """Unmount the volumes that are wanted no more, mount those that are, and release those without a pod."""
        while True:
            now = ctx.now
            again = self.state.next_try(now)
            wait = None if again is None else again - now
            await self._work.wait(wait, idle=wait is None, point="kubelet.volumes.reconcile")
            await ctx.sleep(LOOP_NS, point="kubelet.volumes.reconcile")
            await self._reconcile(ctx)

    async def _reconcile(self, ctx: Context) -> None:
        state = self.state
        for each in state.to_unpublish():
            if self._is_over(each) and state.may_begin(each.unique, each.uid, ctx.now):
                await ctx.point("kubelet.volumes.reconcile")
                self._begin(each, each.uid, self._unpublish, "volumes.unpublish")
        for each in state.to_mount():
            if each.unique not in state.attached:
                if each.attaches and each.unique not in state.reported:
                    continue
                step, name = self._verify, "volumes.verify"
            else:
                step, name = self._mount, "volumes.mount"
            if state.may_begin(each.unique, "", ctx.now):
                await ctx.point("kubelet.volumes.reconcile")
                self._begin(each, "", step, name)
        for unique in state.unused():
            if not state.may_begin(unique, "", ctx.now):
                continue
            await ctx.point("kubelet.volumes.reconcile")
            staged = state.mounts.staged.get(unique)
            if staged is not None:
                self._begin(staged, "", self._unstage, "volumes.unstage")
            elif state.attached.pop(unique, "") is None:
                self._changed("")

    def _is_over(self, each: PodVolume) -> bool:
        """Return whether a pod that has a volume it does not want is gone, or has ended: a new process hears of it
        late.
        """
        if (each.uid, each.name) in self.state.sure or each.uid in self._ended:
            return True
        return self._shared.sources_ready() and each.uid not in self._shared.pods

    def _begin(
        self, each: PodVolume, uid: str, step: Callable[[Context, PodVolume], Any], name: str
    ) -> None:
        self.state.begin(each.unique, uid)
        self._shared.ctx.spawn(self._carry_out, each, uid, step, name=name)

    async def _carry_out(
        self,
        ctx: Context,
        each: PodVolume,
        uid: str,
        step: Callable[[Context, PodVolume], Any],
    ) -> None:
        error = await step(ctx, each)
        self.state.end(each.unique, uid, ctx.now, failed=bool(error))
        if error:
            self._shared.error(error)
        self._changed(each.uid)

    # ------------------------------------------------------------------ operations

    async def _verify(self, ctx: Context, each: PodVolume) -> str:
        """Ask for the node itself whether it is attached by now; why not."""
        if each.attaches:
            name = self._shared.node.name
            try:
                node = (await Client(ctx, self._shared.server).get(NODES, "", name)).tree
            except (ApiError, LinkBroken) as error:
                return (
                    f"VerifyControllerAttachedVolume failed fetching node from API server: {error}"
                )
            attached = (node.get("status") or {}).get("volumesAttached") or ()
            if all(item["name"] != each.unique for item in attached):
                return (
                    f'Volume not attached according to node status for volume "{each.volume}" '
                    f'(UniqueName: "{each.unique}")'
                )
        self.state.attached[each.unique] = None
        return ""

    async def _mount(self, ctx: Context, each: PodVolume) -> str:
        """Stage it, if it is not, and publish it to the pod."""
        state = self.state
        what = "MountVolume.WaitForAttach"
        try:
            if each.attaches:
                await self._check_attachment(ctx, each)
            what = "MountVolume.MountDevice"
            if state.needs_staging(each.unique):
                fields = await self._fields(ctx, each, "nodeStageSecretRef")
                state.staging(each)
                await self._call(ctx, each, "NodeStageVolume", fields, state.staging_failed)
                state.staged(each)
            what = "MountVolume.SetUp"
            fields = await self._fields(ctx, each, "nodePublishSecretRef")
            fields["target_path"] = each.target
            state.publishing(each)
            await self._call(ctx, each, "NodePublishVolume", fields, state.publishing_failed)
        except FAILURES as error:
            told = f'{what} failed for volume "{each.volume}" : {error}'
            pod = self._pods.get(each.uid)
            if pod is not None:
                self._shared.event(reference(pod), "Warning", "FailedMount", told)
            return told
        state.published(each)
        return ""

    async def _check_attachment(self, ctx: Context, each: PodVolume) -> None:
        name = attachment_name(each.handle, each.driver, self._shared.node.name)
        try:
            found = (await Client(ctx, self._shared.server).get(VOLUME_ATTACHMENTS, "", name)).tree
        except ApiError as error:
            raise ValueError(
                f"volume {each.handle} has GET error for volume attachment {name}: {error}"
            ) from None
        if found["metadata"].get("deletionTimestamp"):
            raise ValueError("volume attachment is being deleted")
        status = found.get("status") or {}
        if not status.get("attached"):
            told = (status.get("attachError") or {}).get("message")
            raise ValueError(told or f"attachment timeout for volume {each.handle}")

    async def _fields(self, ctx: Context, each: PodVolume, secret: str) -> dict[str, Any]:
        secrets = {}
        named = each.spec["csi"].get(secret)
        if named:
            place = f"{named['namespace']}/{named['name']}"
            client = Client(ctx, self._shared.server)
            try:
                found = await client.get(SECRETS, named["namespace"], named["name"])
            except ApiError as error:
                what = secret[0].upper() + secret[1:]
                raise ValueError(f"fetching {what} {place} failed: {error}") from None
            secrets = decoded(found.tree)
        use = capability(each.spec.get("accessModes") or (), each.spec.get("volumeMode"))
        return {
            "volume_id": each.handle,
            "staging_target_path": each.staging,
            "volume_capability": use,
            "volume_context": each.spec["csi"].get("volumeAttributes") or {},
            "secrets": secrets,
        }

    async def _unpublish(self, ctx: Context, each: PodVolume) -> str:
        fields = {"volume_id": each.handle, "target_path": each.target}
        try:
            await self._call(ctx, each, "NodeUnpublishVolume", fields)
        except FAILURES as error:
            return f'UnmountVolume.TearDown failed for volume "{each.volume}" : {error}'
        self.state.unpublished(each)
        return ""

    async def _unstage(self, ctx: Context, each: PodVolume) -> str:
        fields = {"volume_id": each.handle, "staging_target_path": each.staging}
        try:
            await self._call(ctx, each, "NodeUnstageVolume", fields)
        except FAILURES as error:
            return f'UnmountDevice failed for volume "{each.volume}" : {error}'
        self.state.unstaged(each)
        return ""

    async def _call(
        self,
        ctx: Context,
        each: PodVolume,
        method: str,
        fields: Mapping[str, Any],
        failed: Callable[[PodVolume, str], None] = lambda _each, _code: None,
    ) -> None:
        """Call the driver of a volume; `failed` is called with the gRPC code when the call fails."""
        try:
            await self._ask(ctx, each.driver, method, fields)
        except CsiError as error:
            failed(each, error.code)
            raise
        except LinkBroken:
            failed(each, UNAVAILABLE)
            raise

    async def _ask(
        self, ctx: Context, driver: str, method: str, fields: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Call a driver's part on this node; raises CsiError, LinkBroken."""
        request = CsiRequest(method, fields, self._shared.node.name)
        try:
            reply: CsiReply = await ctx.ask(driver, request, CALL_NS, point=request.label)
        except Timeout:
            raise CsiError("DeadlineExceeded", "context deadline exceeded") from None
        if reply.code != OK:
            raise CsiError(reply.code, reply.message)
        return reply.response
