"""Invariants of volume snapshots: I1 to I14 and I24 of docs/interleavings-storage.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.gates import minor_of
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import note, stored, the_store

if TYPE_CHECKING:
    from collections.abc import Collection

    from controlplane.scenarios.engine.run import Run

Tree = dict[str, Any]
DRIVER: Final = "hostpath.csi.k8s.io"
NAMESPACE: Final = "default"
SIZE: Final = 104_857_600
CONTROLLER: Final = "snapshot-controller"
SIDECAR: Final = "csi-snapshotter"
PROVISIONER: Final = "csi-provisioner"
SNAPSHOTS: Final = "/registry/snapshot.storage.k8s.io/volumesnapshots/"
CONTENTS: Final = "/registry/snapshot.storage.k8s.io/volumesnapshotcontents/"
GROUPS: Final = "/registry/groupsnapshot.storage.k8s.io/volumegroupsnapshots/"
GROUP_CONTENTS: Final = "/registry/groupsnapshot.storage.k8s.io/volumegroupsnapshotcontents/"
CLAIMS: Final = "/registry/persistentvolumeclaims/"
VOLUMES: Final = "/registry/persistentvolumes/"
VOLUME: Final = "vol-"
BLOCKED: Final = "blocked"
"""In the run's notes: the processes that were blocked when the scenario had settled."""
NAMED: Final = 3
"""The number of waiting objects that are named."""
WATCHED: Final = (SNAPSHOTS, CONTENTS, GROUPS, GROUP_CONTENTS, CLAIMS)


def volume(number: int) -> str:
    """The handle of a volume that was there from the beginning."""
    return f"{VOLUME}{number}"


def one_point_in_time() -> Invariant:
    """I12: what is restored from a group holds no write without those that were finished before it.

    Write number i goes to volume i mod N after number i - 1 was acknowledged. If k is the largest on any
    restored volume, each holds exactly its own numbers up to k. Single snapshots are held against the
    same measure where the run's option `cut` is "series".
    """

    def check(run: Run) -> str | None:
        disk = run.cluster.csi_drivers[DRIVER].driver
        assert disk is not None
        sets = [[disk.snapshots[each] for each in cut.snapshots] for cut in disk.groups.values()]
        if run.options.get("cut") == "series":
            sets.append([each for each in disk.snapshots.values() if not each.group])
        written = sum(handle.startswith(VOLUME) for handle in disk.volumes)
        for members in sets:
            latest = max((write for each in members for write in each.writes), default=-1)
            for each in members:
                wanted = tuple(
                    number
                    for number in range(latest + 1)
                    if volume(number % written) == each.volume
                )
                if each.writes != wanted:
                    return (
                        f"the group holds write {latest}, but of {each.volume} only those up to "
                        f"{max(each.writes, default=None)}"
                    )
        return None

    return Invariant("a group is one point in time", check)


def restored_as_cut() -> Invariant:
    """I11: a restored volume holds what the snapshot of its claim's source holds."""

    def check(run: Run) -> str | None:
        disk = run.cluster.csi_drivers[DRIVER].driver
        assert disk is not None
        for each in disk.volumes.values():
            source = disk.snapshots.get(each.source)
            if source is not None and each.writes != source.writes:
                return f"volume {each.name} differs from the snapshot that it was made from"
        return None

    return Invariant("restored volumes hold what was cut", check)


def no_leak() -> Invariant:
    """I1: every snapshot and group of the storage is named by a content, every volume by an object."""

    def check(run: Run) -> str | None:
        disk = run.cluster.csi_drivers[DRIVER].driver
        assert disk is not None
        named = {
            status.get("snapshotHandle") or obj.tree["spec"]["source"].get("snapshotHandle")
            for obj in run.objects(CONTENTS)
            for status in [obj.tree.get("status") or {}]
        }
        groups = {
            (obj.tree.get("status") or {}).get("volumeGroupSnapshotHandle")
            for obj in run.objects(GROUP_CONTENTS)
        }
        coming = {obj.tree["spec"]["volumeSnapshotRef"].get("uid") for obj in run.objects(CONTENTS)}
        coming |= {
            obj.tree["spec"]["volumeGroupSnapshotRef"].get("uid")
            for obj in run.objects(GROUP_CONTENTS)
        }
        retained = _retained(run)
        for snapshot in disk.snapshots.values():
            if snapshot.id in retained or snapshot.group in retained:
                continue
            asked = any(uid and uid in snapshot.name for uid in coming)
            if snapshot.id not in named and snapshot.group not in groups and not asked:
                return f"snapshot {snapshot.name} of {snapshot.volume} is left in the storage"
        kept = {obj.tree["spec"]["csi"]["volumeHandle"] for obj in run.objects(VOLUMES)}
        kept |= {f"pvc-{obj.uid}" for obj in run.objects(CLAIMS)}
        for each in disk.volumes.values():
            if each.id not in kept and each.name not in kept and not each.id.startswith(VOLUME):
                return f"volume {each.name} is left in the storage"
        return None

    return Invariant("nothing is left in the storage", check)


def _retained(run: Run) -> dict[str, None]:
    """Handles of snapshots and groups with the policy Retain: a deletion of the content keeps them."""
    found: dict[str, None] = {}
    for prefix, field in (
        (CONTENTS, "snapshotHandle"),
        (GROUP_CONTENTS, "volumeGroupSnapshotHandle"),
    ):
        for event in run.cluster.store.keyspace(prefix).events_after(run.cluster.store.compacted):
            tree = event.new.tree if event.new is not None else {"spec": {}}
            if tree["spec"].get("deletionPolicy") == "Retain":
                handle = (tree.get("status") or {}).get(field)
                if handle:
                    found[handle] = None
    return found


def no_task_is_blocked() -> Invariant:
    """I9: once the scenario has come to rest, no worker waits for anything but work and time."""

    def check(run: Run) -> str | None:
        blocked: list[str] = run.notes.get(BLOCKED, [])
        return "; ".join(blocked) or None

    return Invariant("no worker is blocked", check)


def members_as_listed() -> Invariant:
    """I14: a group has the volumes of the claims that its selector chose when they were listed."""
    seen: dict[str, dict[tuple[str, ...], None]] = {}
    checked: dict[str, None] = {}

    def begin(_run: Run) -> None:
        seen.clear()
        checked.clear()

    def check(run: Run) -> str | None:
        groups = run.objects(GROUPS)
        if not groups and not seen:
            return None
        made = {}
        for obj in run.objects(GROUP_CONTENTS):
            if obj.uid not in checked:
                made[obj.tree["spec"]["volumeGroupSnapshotRef"].get("uid", "")] = obj
        for group in groups:
            if f"groupsnapcontent-{group.uid}" not in checked:
                seen.setdefault(group.uid, {})[_chosen(run, group.tree)] = None
        for uid, content in made.items():
            handles = content.tree["spec"]["source"].get("volumeHandles")
            checked[content.uid] = checked[content.name] = None
            if handles is not None and tuple(handles) not in seen.get(uid, {}):
                return f"{content.name} has {', '.join(handles)}, which the selector never chose"
        return None

    return Invariant(
        "groups are what was listed", check, ("apiserver",), begin=begin, looks_at=the_store
    )


def _chosen(run: Run, group: Tree) -> tuple[str, ...]:
    """The handles of the volumes of the claims that a group's selector chooses now, in the order of a list."""
    wanted = ((group["spec"]["source"].get("selector") or {}).get("matchLabels") or {}).items()
    handles = {
        obj.name: (obj.tree["spec"].get("csi") or {}).get("volumeHandle", "")
        for obj in run.objects(VOLUMES)
    }
    return tuple(
        handles.get(obj.tree["spec"].get("volumeName", ""), "")
        for obj in run.objects(CLAIMS)
        if obj.namespace == group["metadata"]["namespace"]
        and wanted <= (obj.metadata.get("labels") or {}).items()
    )


def nothing_stays() -> Invariant:
    """I6: what is deleted goes, in the time that the scenario gives it."""

    def check(run: Run) -> str | None:
        for prefix in WATCHED:
            for obj in run.objects(prefix):
                if obj.metadata.get("deletionTimestamp"):
                    held = ", ".join(obj.metadata.get("finalizers") or ())
                    return f"{obj.kind} {obj.key} is being deleted, and stays: {held}"
        return None

    return Invariant("what is deleted goes", check)


def bound_both_ways() -> Invariant:
    """I2: a snapshot's content refers to that snapshot, once it refers to any by uid."""

    def check(run: Run) -> str | None:
        for snapshots, contents, kind in (
            (SNAPSHOTS, CONTENTS, "VolumeSnapshot"),
            (GROUPS, GROUP_CONTENTS, "VolumeGroupSnapshot"),
        ):
            found = {obj.name: obj for obj in run.objects(contents)}
            for obj in run.objects(snapshots):
                name = (obj.tree.get("status") or {}).get(f"bound{kind}ContentName")
                content = found.get(name or "")
                if content is None:
                    continue
                reference = content.tree["spec"][f"{kind[0].lower()}{kind[1:]}Ref"]
                if reference.get("uid") and reference["uid"] != obj.uid:
                    return f"{kind} {obj.key} is bound to {name}, which is another's"
        return None

    return Invariant("snapshots and contents are bound both ways", check)


def contents_stay_for_their_snapshots(after: str) -> Invariant:
    """I26: the content of a snapshot, by uid, that is not being deleted is not deleted either.

    Upstream: kubernetes-csi/external-snapshotter pkg/common-controller deletes a content with the snapshot that it
    refers to; users delete none where this is asked.
    """

    def check(run: Run) -> str | None:
        for snapshots, contents, field in (
            (SNAPSHOTS, CONTENTS, "volumeSnapshotRef"),
            (GROUPS, GROUP_CONTENTS, "volumeGroupSnapshotRef"),
        ):
            going = [obj for obj in run.objects(contents) if obj.metadata.get("deletionTimestamp")]
            if not going:
                continue
            living = {
                obj.uid: obj.key
                for obj in run.objects(snapshots)
                if not obj.metadata.get("deletionTimestamp")
            }
            for content in going:
                key = living.get(content.tree["spec"][field].get("uid", ""))
                if key is not None:
                    return f"content {content.name} is being deleted, and its snapshot {key} is not"
        return None

    looks_at = stored(SNAPSHOTS, CONTENTS, GROUPS, GROUP_CONTENTS)
    return Invariant("contents stay for their snapshots", check, (after,), looks_at=looks_at)


def members_are_deleted_together() -> Invariant:
    """I7: no member of a group is deleted by itself."""

    def check(run: Run) -> str | None:
        probe = run.cluster.csi_drivers[DRIVER]
        members: dict[str, None] = {}
        for call in probe.calls:
            if call.method == "CreateVolumeGroupSnapshot" and call.reply is not None:
                answer = call.reply.response.get("group_snapshot") or {}
                members.update({each["snapshot_id"]: None for each in answer.get("snapshots", ())})
            if call.method == "DeleteSnapshot" and call.fields["snapshot_id"] in members:
                return f"DeleteSnapshot was called for {call.fields['snapshot_id']}, a member"
        return None

    return Invariant("members of a group are deleted with it", check)


def one_object_a_name() -> Invariant:
    """I5: the storage has at most one snapshot, and one group, of a name."""

    def check(run: Run) -> str | None:
        disk = run.cluster.csi_drivers[DRIVER].driver
        assert disk is not None
        for kind in (disk.snapshots, disk.groups):
            names = [each.name for each in kind.values()]
            for name in names:
                if names.count(name) > 1 and not _failed_group(disk, name):
                    return f"the storage has {names.count(name)} objects called {name}"
        return None

    return Invariant("one storage object a name", check)


def _failed_group(disk: Any, name: str) -> bool:
    """Return whether copies belong to groups that were never completed, which this driver leaves behind."""
    groups = {each.group for each in disk.snapshots.values() if each.name == name}
    return any(group and group not in disk.groups for group in groups)


def ready_groups_are_whole() -> Invariant:
    """I4: the members of a ready group exist and are bound."""

    def check(run: Run) -> str | None:
        snapshots = {obj.name: obj for obj in run.objects(SNAPSHOTS)}
        contents = {obj.name: obj for obj in run.objects(CONTENTS)}
        groups = {obj.name: obj for obj in run.objects(GROUP_CONTENTS)}
        for group in run.objects(GROUPS):
            status = group.tree.get("status") or {}
            content = groups.get(status.get("boundVolumeGroupSnapshotContentName", ""))
            if not status.get("readyToUse") or content is None:
                continue
            if group.metadata.get("deletionTimestamp"):
                continue
            told = content.tree.get("status") or {}
            infos = told.get("volumeSnapshotInfoList") or told.get("volumeSnapshotHandlePairList")
            named = content.uid if minor_of(run.setting.release) < (1, 33) else group.uid
            for info in infos or ():
                missing = _missing_member(named, info, snapshots, contents)
                if missing:
                    return f"group {group.key} is ready, but {missing}"
        return None

    return Invariant("ready groups are whole", check, ("apiserver",), looks_at=the_store)


def _missing_member(
    uid: str, info: Tree, snapshots: dict[str, Any], contents: dict[str, Any]
) -> str | None:
    from controlplane.controllers.storage.snapshot.names import member_content_name, member_name

    name = member_name(uid, info["volumeHandle"])
    content = contents.get(member_content_name(uid, info["volumeHandle"]))
    if name not in snapshots or content is None:
        return f"the member of {info['volumeHandle']} is not there"
    if content.tree["spec"]["volumeSnapshotRef"].get("uid") != snapshots[name].uid:
        return f"the member of {info['volumeHandle']} is not bound"
    return None


SOON_NS: Final = 5_000_000_000


def handed_over_soon() -> Invariant:
    """I6, of contents: the driver is asked to delete a snapshot soon after its content was deleted."""
    deleted: dict[str, int] = {}

    def begin(_run: Run) -> None:
        deleted.clear()

    def check(run: Run) -> str | None:
        for obj in run.objects(CONTENTS):
            handle = (obj.tree.get("status") or {}).get("snapshotHandle")
            if handle and obj.metadata.get("deletionTimestamp"):
                deleted.setdefault(handle, run.world.now)
        late = [handle for handle, at in deleted.items() if run.world.now > at + SOON_NS]
        calls = run.cluster.csi_drivers[DRIVER].calls
        asked = {call.fields["snapshot_id"] for call in calls if call.method == "DeleteSnapshot"}
        for handle in late:
            if handle not in asked:
                return f"snapshot {handle} is to be deleted, and the driver does not hear of it"
        return None

    return Invariant(
        "what is deleted is handed to the driver soon", check, after=("apiserver",), begin=begin
    )


def set_once() -> Invariant:
    """I13: when a snapshot was cut and how big it is does not change, once it is known."""
    seen: dict[tuple[str, str], Any] = {}

    def begin(_run: Run) -> None:
        seen.clear()

    def check(run: Run) -> str | None:
        for obj in run.objects(SNAPSHOTS):
            status = obj.tree.get("status") or {}
            for field in ("creationTime", "restoreSize"):
                value = status.get(field)
                known = seen.setdefault((obj.uid, field), value) if value else None
                if value and known != value:
                    return f"{field} of {obj.key} changed from {known} to {value}"
        return None

    return Invariant(
        "times and sizes are set once", check, ("apiserver",), begin=begin, looks_at=the_store
    )


def kept_while_being_made() -> Invariant:
    """I3: no content goes while the driver may still be making its snapshot."""
    known: dict[str, str] = {}

    def begin(_run: Run) -> None:
        known.clear()

    def check(run: Run) -> str | None:
        living = {}
        for prefix, field in ((CONTENTS, "volumeSnapshotRef"), (GROUP_CONTENTS, _GROUP_REF)):
            for obj in run.objects(prefix):
                living[obj.name] = obj.tree["spec"][field].get("uid", "")
        gone = [(name, uid) for name, uid in known.items() if uid and name not in living]
        known.clear()
        known.update(living)
        for name, uid in gone:
            for call in run.cluster.csi_drivers[DRIVER].calls:
                made = str(call.fields.get("name", ""))
                if not call.ended and call.method.startswith("Create") and uid in made:
                    return f"{name} is gone, and {call.method} for it is under way"
        return None

    return Invariant(
        "contents stay while they are made", check, ("apiserver",), begin=begin, looks_at=the_store
    )


_GROUP_REF: Final = "volumeGroupSnapshotRef"
MOST_CALLS: Final = 30
"""More calls than backoff allows for in any of these scenarios."""


def calls_back_off() -> Invariant:
    """I8: a single snapshot is not asked for, or deleted, over and over without backoff."""
    return _back_off("calls back off", {"CreateSnapshot", "DeleteSnapshot"})


def group_calls_back_off() -> Invariant:
    """I8 of groups, which no release keeps while a dynamic group fails or is not ready."""
    return _back_off("calls for groups back off", {"CreateVolumeGroupSnapshot"})


def _back_off(name: str, methods: Collection[str]) -> Invariant:
    def check(run: Run) -> str | None:
        counts: dict[tuple[str, str], int] = {}
        for call in run.cluster.csi_drivers[DRIVER].calls:
            if call.method in methods:
                about = call.fields.get("name") or call.fields.get("snapshot_id")
                key = call.method, str(about)
                counts[key] = counts.get(key, 0) + 1
                if counts[key] > MOST_CALLS:
                    return f"{call.method} was called more than {MOST_CALLS} times for {about}"
        return None

    return Invariant(name, check)


def claimed_volumes_stay() -> Invariant:
    """I10: the volume of a claim that exists is not deleted from the storage."""
    seen = [0]

    def begin(_run: Run) -> None:
        seen[0] = 0

    def check(run: Run) -> str | None:
        calls = run.cluster.csi_drivers[DRIVER].calls
        news, seen[0] = calls[seen[0] :], len(calls)
        for call in news:
            if call.method == "DeleteVolume":
                found = _claim_of(run, call.fields["volume_id"])
                if found is not None:
                    return f"DeleteVolume was called for the volume of claim {found}"
        return None

    return Invariant("volumes of claims stay", check, after=(DRIVER,), begin=begin)


def _claim_of(run: Run, handle: str) -> str | None:
    """The claim that a volume of the storage belongs to, if it exists."""
    living = {obj.uid: obj.key for obj in run.objects(CLAIMS)}
    for obj in run.objects(VOLUMES):
        spec = obj.tree["spec"]
        if spec["csi"]["volumeHandle"] == handle:
            return living.get((spec.get("claimRef") or {}).get("uid", ""))
    return None


def groups_get_ready() -> Invariant:
    """Every group is ready in the end."""
    return _get_ready("groups", GROUPS)


def snapshots_get_ready() -> Invariant:
    """Every snapshot is ready in the end."""
    return _get_ready("snapshots", SNAPSHOTS)


def _get_ready(what: str, prefix: str) -> Invariant:
    def check(run: Run) -> str | None:
        found = run.objects(prefix)
        waiting = [each for each in found if not (each.tree.get("status") or {}).get("readyToUse")]
        if not waiting:
            return None
        keys = ", ".join(each.key for each in waiting[:NAMED])
        return f"{len(waiting)} of {len(found)} {what} never became ready: {keys}"

    return Invariant(f"{what} get ready", check)


def no_event(reason: str) -> Invariant:
    """No event of this reason was reported."""

    def check(run: Run) -> str | None:
        for obj in run.objects("/registry/events/"):
            if obj.tree["reason"] == reason:
                about = obj.tree["involvedObject"]
                return f"{reason} of {about['kind']} {about['name']}: {obj.tree['message']}"
        return None

    return Invariant(f"no event {reason}", check)


MOST_STEPS: Final = 5000
"""More steps than a controller needs for whatever one change brings."""


def comes_to_rest(actor: str) -> Invariant:
    """A process does not go on and on while neither time passes nor anything is written."""
    last: list[Any] = [None, 0]

    def begin(_run: Run) -> None:
        last[:] = [None, 0]

    def check(run: Run) -> str | None:
        at = run.world.now, run.cluster.store.revision
        last[:] = [at, last[1] + 1 if last[0] == at else 0]
        return f"{actor} has made {MOST_STEPS} steps for nothing" if last[1] > MOST_STEPS else None

    return Invariant("processes come to rest", check, after=(actor,), begin=begin)


_ONE_AT_A_TIME: Final = {
    "CreateVolume": ("volumes", ("name",)),
    "DeleteVolume": ("volumes", ("volume_id",)),
    "ControllerPublishVolume": ("attachments", ("volume_id", "node_id")),
    "ControllerUnpublishVolume": ("attachments", ("volume_id", "node_id")),
    "NodeStageVolume": ("stages", ("volume_id",)),
    "NodeUnstageVolume": ("stages", ("volume_id",)),
    "NodePublishVolume": ("mounts", ("volume_id", "target_path")),
    "NodeUnpublishVolume": ("mounts", ("volume_id", "target_path")),
    "CreateSnapshot": ("snapshots", ("name",)),
    "DeleteSnapshot": ("snapshots", ("snapshot_id",)),
    "CreateVolumeGroupSnapshot": ("groups", ("name",)),
    "DeleteVolumeGroupSnapshot": ("groups", ("group_snapshot_id",)),
}
"""Calls of which one is in flight for the same subject: what they are about, and the fields that name it."""


def one_call_at_a_time() -> Invariant:
    """I24: no two calls for one volume, mount, attachment or snapshot are in flight at once, unless a process failed.

    For worlds in which no call takes longer than its caller waits.

    The CSI specification asks it of the orchestrator: "no more than one call in-flight per volume at a given time",
    except after a crash. Upstream: nestedpendingoperations of the kubelet, work queues of the sidecars.
    """

    def check(run: Run) -> str | None:
        if run.world.faults.injected:
            return None
        calls = run.cluster.csi_drivers[DRIVER].calls
        known = note(run, "calls in flight")
        for call in calls[known.get("seen", 0) :]:
            about, fields = _ONE_AT_A_TIME.get(call.method, ("", ()))
            if not about:
                continue
            subject = " ".join(str(call.fields.get(each, "")) for each in fields)
            before = known.get(f"{about} {call.node} {subject}")
            if before is not None and not before.ended:
                return f"{call.method} of {subject} while {before.method} of it is in flight"
            known[f"{about} {call.node} {subject}"] = call
        known["seen"] = len(calls)
        return None

    return Invariant("one call at a time", check, after=(DRIVER,))


ALWAYS: Final = (
    no_leak(),
    bound_both_ways(),
    kept_while_being_made(),
    ready_groups_are_whole(),
    one_object_a_name(),
    nothing_stays(),
    members_are_deleted_together(),
    calls_back_off(),
    no_task_is_blocked(),
    claimed_volumes_stay(),
    restored_as_cut(),
    one_point_in_time(),
    set_once(),
    members_as_listed(),
)
"""I1 to I14: what must hold in every scenario with storage."""
