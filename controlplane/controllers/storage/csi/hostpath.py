"""An emulated driver that behaves as the hostpath driver does, with volumes that hold what was written to them.

Upstream: kubernetes-csi/csi-driver-host-path pkg/hostpath. A volume's content is the list of its writes. A
group is cut volume after volume, as upstream does it, unless the cut is `atomic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import define, evolve, field, frozen

from controlplane.api.csi import ONE_NODE
from controlplane.controllers.storage.csi.messages import (
    ALREADY_EXISTS,
    FAILED_PRECONDITION,
    INTERNAL,
    INVALID_ARGUMENT,
    NOT_FOUND,
    UNIMPLEMENTED,
    CsiReply,
    CsiRequest,
)
from controlplane.decisions import Decision, Point

Fields = Mapping[str, Any]
Steps = Decision[Point, CsiReply]
"""A call being carried out."""

_COPIED: Final = Point("csi.copied")
PLACE: Final = "topology.hostpath.csi/node"
"""The topology key."""
CAPABILITIES: Final = (
    "CREATE_DELETE_VOLUME",
    "GET_VOLUME",
    "GET_CAPACITY",
    "CREATE_DELETE_SNAPSHOT",
    "LIST_SNAPSHOTS",
    "LIST_VOLUMES",
    "CLONE_VOLUME",
    "VOLUME_CONDITION",
    "GET_SNAPSHOT",
    "SINGLE_NODE_MULTI_WRITER",
)


@frozen
class Volume:
    """A volume and what was written to it, oldest first. `source` is a snapshot, `copied` a volume, `place` a node."""

    id: str
    name: str
    size: int
    writes: tuple[Any, ...] = ()
    source: str = ""
    copied: str = ""
    place: str = ""


@frozen
class Snapshot:
    """The content of a volume when the snapshot was cut. `group` is "" for a single one."""

    id: str
    name: str
    volume: str
    size: int
    created_ns: int
    writes: tuple[Any, ...] = ()
    group: str = ""
    ready_ns: int = 0


@frozen
class Group:
    """Snapshots that were cut together."""

    id: str
    name: str
    volumes: tuple[str, ...]
    snapshots: tuple[str, ...]
    created_ns: int


@frozen
class DriverOptions:
    """The behaviour of a driver.

    `atomic_groups`: all volumes of a group are cut in one step. `groups` False: there is no group
    service. A call takes `call_ns`. `upload_ns`: how long after its cut a snapshot is ready. `keeps_partial_groups`:
    as
    upstream, a group that fails half-way leaves the snapshots that were cut. `aborts_duplicates`: a
    second call to make something of a name that is being made is refused. `attaches`: volumes have to be
    attached to a node before they can be used there. `topology`: a volume is on one node, and cannot be reached
    from others.
    """

    name: str = "hostpath.csi.k8s.io"
    groups: bool = True
    atomic_groups: bool = False
    call_ns: int = 10_000_000
    upload_ns: int = 0
    keeps_partial_groups: bool = True
    aborts_duplicates: bool = False
    attaches: bool = False
    topology: bool = False
    capabilities: Sequence[str] = CAPABILITIES


@frozen
class FileWrite:
    """A file of a volume, written whole; None: it was removed."""

    path: str
    data: bytes | None = field(repr=False)


class _Refused(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.reply = CsiReply(code, message)


@define
class HostpathDriver:
    """The driver's disk: volumes, snapshots and groups by id. `new_id` makes ids."""

    options: DriverOptions = field(factory=DriverOptions)
    volumes: dict[str, Volume] = field(factory=dict)
    snapshots: dict[str, Snapshot] = field(factory=dict)
    groups: dict[str, Group] = field(factory=dict)
    attached: dict[str, dict[str, None]] = field(factory=dict)
    """By volume, the nodes that it is attached to."""
    staged: dict[str, dict[str, None]] = field(factory=dict)
    """By volume, the nodes where it is mounted once for all pods."""
    published: dict[str, dict[tuple[str, str], None]] = field(factory=dict)
    """By volume, the nodes and paths where a pod has it."""

    def write(self, volume: str, payload: Any, node: str = "") -> bool:
        """A program writes; False if there is no such volume, or no pod of the node has it."""
        found = self.volumes.get(volume)
        if found is None:
            return False
        if node and not self._reaches(node, volume):
            return False
        if node and found.writes[-1:] == (payload,):
            return True  # a program that did not hear of it has written it again
        self.volumes[volume] = evolve(found, writes=(*found.writes, payload))
        return True

    def files_of(self, handle: str) -> Mapping[str, bytes]:
        """Return the files of a volume; none of an unknown one."""
        found = self.volumes.get(handle)
        if found is None:
            return {}
        every = {each.path: each.data for each in found.writes if isinstance(each, FileWrite)}
        return {path: data for path, data in every.items() if data is not None}

    def put_file(self, handle: str, path: str, data: bytes | None) -> None:
        """Write a file of a volume, or (None) remove it; without effect for an unknown volume.

        An earlier write of the same file is dropped, so that a volume is no larger than its files.
        """
        found = self.volumes.get(handle)
        if found is None:
            return
        kept = [
            each for each in found.writes if not (isinstance(each, FileWrite) and each.path == path)
        ]
        added = () if data is None else (FileWrite(path, data),)
        self.volumes[handle] = evolve(found, writes=(*kept, *added))

    def _reaches(self, node: str, volume: str) -> bool:
        if self.options.attaches and node not in self.attached.get(volume, ()):
            return False
        return any(where == node for where, _ in self.published.get(volume, ()))

    def handle(self, request: CsiRequest, now: int, new_id: Callable[[], str]) -> Steps:
        """Carry a call out. `now` is nanoseconds since the epoch."""
        fields = request.fields
        try:
            match request.method:
                case "ControllerGetCapabilities":
                    return CsiReply(response={"capabilities": tuple(self.options.capabilities)})
                case "ControllerPublishVolume" if self.options.attaches:
                    return self._publish_to_node(fields)
                case "ControllerUnpublishVolume" if self.options.attaches:
                    return self._unpublish_from_node(fields)
                case "NodeGetInfo":
                    return self._node_info(request.node)
                case "NodeStageVolume" | "NodePublishVolume":
                    return self._mount(request)
                case "NodeUnstageVolume" | "NodeUnpublishVolume":
                    return self._unmount(request)
                case "CreateVolume":
                    return self._create_volume(fields, now, new_id)
                case "DeleteVolume":
                    self.volumes.pop(fields["volume_id"], None)
                    return CsiReply()
                case "CreateSnapshot":
                    return self._create_snapshot(fields, now, new_id)
                case "DeleteSnapshot":
                    return self._delete_snapshot(fields)
                case "ListSnapshots":
                    return self._list_snapshots(fields, now)
            if not self.options.groups:
                raise _Refused(UNIMPLEMENTED, "unknown service csi.v1.GroupController")
            match request.method:
                case "CreateVolumeGroupSnapshot":
                    return (yield from self._create_group(fields, now, new_id))
                case "DeleteVolumeGroupSnapshot":
                    return self._delete_group(fields)
                case "GetVolumeGroupSnapshot":
                    return self._get_group(fields, now)
            raise _Refused(UNIMPLEMENTED, f"unknown method {request.method}")
        except _Refused as refused:
            return refused.reply

    # ------------------------------------------------------------------ volumes

    def _create_volume(self, fields: Fields, now: int, new_id: Callable[[], str]) -> CsiReply:
        name = _given(fields, "name", "Name missing in request")
        size = int((fields.get("capacity_range") or {}).get("required_bytes", 0))
        content = fields.get("volume_content_source") or {}
        source = (content.get("snapshot") or {}).get("snapshot_id", "")
        copied = (content.get("volume") or {}).get("volume_id", "")
        for known in self.volumes.values():
            if known.name == name:
                if known.size < size:
                    text = (
                        f"Volume with the same name: {name} but with different size already exist"
                    )
                    raise _Refused(ALREADY_EXISTS, text)
                if known.source != source:
                    text = "existing volume source snapshot id not matching"
                    raise _Refused(ALREADY_EXISTS, text)
                if known.copied != copied:
                    text = "existing volume source volume id not matching"
                    raise _Refused(ALREADY_EXISTS, text)
                return _volume_reply(known)
        writes, source = self._restored(source, size, now)
        if copied:
            writes = self._copied(copied, size)
        place = self._place(fields.get("accessibility_requirements") or {})
        volume = Volume(new_id(), name, size, writes, source, copied, place)
        self.volumes[volume.id] = volume
        return _volume_reply(volume)

    def _copied(self, source: str, size: int) -> tuple[Any, ...]:
        found = self.volumes.get(source)
        if found is None:
            raise _Refused(NOT_FOUND, f"source volume {source} not found")
        if found.size > size:
            text = f"volume {source} size {found.size} is greater than requested volume size {size}"
            raise _Refused(INVALID_ARGUMENT, text)
        return found.writes

    def _place(self, wanted: Fields) -> str:
        """On which node it is made: the first one that is preferred."""
        if not self.options.topology:
            return ""
        places = wanted.get("preferred") or wanted.get("requisite") or ()
        return next((each["segments"].get(PLACE, "") for each in places), "")

    def _node_info(self, node: str) -> CsiReply:
        info: dict[str, Any] = {"node_id": node}
        if self.options.topology:
            info["accessible_topology"] = {"segments": {PLACE: node}}
        return CsiReply(response=info)

    def _restored(self, source: str, size: int, now: int) -> tuple[tuple[Any, ...], str]:
        if not source:
            return (), ""
        found = self.snapshots.get(source)
        if found is None:
            raise _Refused(NOT_FOUND, f"cannot find snapshot {source}")
        if found.ready_ns > now:
            raise _Refused(INTERNAL, f"snapshot {source} is not yet ready to use.")
        if found.size > size:
            text = (
                f"snapshot {source} size {found.size} is greater than requested volume size {size}"
            )
            raise _Refused(INVALID_ARGUMENT, text)
        return found.writes, source

    def _volume(self, volume: str) -> Volume:
        found = self.volumes.get(volume)
        if found is None:
            text = f"volume id {volume} does not exist in the volumes list"
            raise _Refused(NOT_FOUND, text)
        return found

    # ------------------------------------------------------------------ nodes

    def _publish_to_node(self, fields: Fields) -> CsiReply:
        """Attach. What only one node may have is not given to a second one."""
        volume = self._volume(_given(fields, "volume_id", "Volume ID must be provided")).id
        node = _given(fields, "node_id", "Node ID must be provided")
        use = _given(fields, "volume_capability", "Volume Capabilities must be provided")
        nodes = self.attached.setdefault(volume, {})
        others = [each for each in nodes if each != node]
        if others and use["access_mode"]["mode"] in ONE_NODE:
            text = f"Volume {volume} is published to another node: {others[0]}"
            raise _Refused(FAILED_PRECONDITION, text)
        nodes[node] = None
        return CsiReply(response={"publish_context": {}})

    def _unpublish_from_node(self, fields: Fields) -> CsiReply:
        """Detach, also what is still mounted there, as the hostpath driver does; what is gone is detached."""
        volume = _given(fields, "volume_id", "Volume ID must be provided")
        self.attached.get(volume, {}).pop(fields.get("node_id", ""), None)
        return CsiReply()

    def _mount(self, request: CsiRequest) -> CsiReply:
        """Mount on the node that asks, for all pods (stage) or for one (publish)."""
        found = self._volume(_given(request.fields, "volume_id", "Volume ID missing in request"))
        volume, node = found.id, request.node
        if found.place and found.place != node:
            raise _Refused(FAILED_PRECONDITION, f"volume {volume} is on node {found.place}")
        if self.options.attaches and node not in self.attached.get(volume, ()):
            raise _Refused(FAILED_PRECONDITION, f"volume {volume} is not attached to node {node}")
        if request.method == "NodeStageVolume":
            self.staged.setdefault(volume, {})[node] = None
            return CsiReply()
        if node not in self.staged.get(volume, ()):
            raise _Refused(FAILED_PRECONDITION, f"volume {volume} is not staged on node {node}")
        target = _given(request.fields, "target_path", "Target path missing in request")
        self.published.setdefault(volume, {})[node, target] = None
        return CsiReply()

    def _unmount(self, request: CsiRequest) -> CsiReply:
        """The reverse; what is not mounted is unmounted."""
        volume = _given(request.fields, "volume_id", "Volume ID missing in request")
        if request.method == "NodeUnstageVolume":
            self.staged.get(volume, {}).pop(request.node, None)
        else:
            target = _given(request.fields, "target_path", "Target path missing in request")
            self.published.get(volume, {}).pop((request.node, target), None)
        return CsiReply()

    # ------------------------------------------------------------------ single snapshots

    def _create_snapshot(self, fields: Fields, now: int, new_id: Callable[[], str]) -> CsiReply:
        name = _given(fields, "name", "Name missing in request")
        volume = _given(fields, "source_volume_id", "SourceVolumeId missing in request")
        for known in self.snapshots.values():
            if known.name == name:
                if known.volume != volume:
                    text = (
                        f"snapshot with the same name: {name} but with different "
                        "SourceVolumeId already exist"
                    )
                    raise _Refused(ALREADY_EXISTS, text)
                return CsiReply(response={"snapshot": _snapshot(known, now)})
        snapshot = self._cut(name, self._volume(volume), now, new_id(), "")
        return CsiReply(response={"snapshot": _snapshot(snapshot, now)})

    def _cut(self, name: str, volume: Volume, now: int, new: str, group: str) -> Snapshot:
        ready = now + self.options.upload_ns
        snapshot = Snapshot(new, name, volume.id, volume.size, now, volume.writes, group, ready)
        self.snapshots[snapshot.id] = snapshot
        return snapshot

    def _delete_snapshot(self, fields: Fields) -> CsiReply:
        wanted = _given(fields, "snapshot_id", "Snapshot ID missing in request")
        found = self.snapshots.get(wanted)
        if found is not None and found.group:
            text = f"Snapshot with ID {wanted} is part of groupsnapshot {found.group}"
            raise _Refused(INVALID_ARGUMENT, text)
        self.snapshots.pop(wanted, None)
        return CsiReply()

    def _list_snapshots(self, fields: Fields, now: int) -> CsiReply:
        wanted = fields.get("snapshot_id")
        entries = [
            {"snapshot": _snapshot(each, now)}
            for each in self.snapshots.values()
            if not wanted or each.id == wanted
        ]
        return CsiReply(response={"entries": entries})

    # ------------------------------------------------------------------ groups

    def _create_group(self, fields: Fields, now: int, new_id: Callable[[], str]) -> Steps:
        name = _given(fields, "name", "Name missing in request")
        wanted = tuple(_given(fields, "source_volume_ids", "SourceVolumeIds missing in request"))
        for known in self.groups.values():
            if known.name == name:
                if sorted(known.volumes) != sorted(wanted):
                    text = (
                        "group snapshot with the same name but with different SourceVolumeIds "
                        "already exist"
                    )
                    raise _Refused(ALREADY_EXISTS, text)
                return self._group_reply(known, now)
        if self.options.atomic_groups:
            for each in wanted:
                self._volume(each)
        group = new_id()
        made: list[str] = []
        for number, each in enumerate(wanted):
            if number and not self.options.atomic_groups:
                yield _COPIED
            found = self.volumes.get(each)
            if found is None:
                if not self.options.keeps_partial_groups:
                    for snapshot in made:
                        del self.snapshots[snapshot]
                self._volume(each)
            else:
                made.append(self._cut(f"{name}-{each}", found, now, new_id(), group).id)
        self.groups[group] = done = Group(group, name, wanted, tuple(made), now)
        return self._group_reply(done, now)

    def _group_reply(self, group: Group, now: int) -> CsiReply:
        members = [_snapshot(self.snapshots[each], now) for each in group.snapshots]
        answer = {
            "group_snapshot_id": group.id,
            "snapshots": members,
            "creation_time": group.created_ns,
            "ready_to_use": all(each["ready_to_use"] for each in members),
        }
        return CsiReply(response={"group_snapshot": answer})

    def _delete_group(self, fields: Fields) -> CsiReply:
        wanted = _given(fields, "group_snapshot_id", "GroupSnapshot ID missing in request")
        found = self.groups.pop(wanted, None)
        for each in () if found is None else found.snapshots:
            self.snapshots.pop(each, None)
        return CsiReply()

    def _get_group(self, fields: Fields, now: int) -> CsiReply:
        wanted = _given(fields, "group_snapshot_id", "GroupSnapshot ID missing in request")
        found = self.groups.get(wanted)
        if found is None:
            text = f"groupsnapshot id {wanted} does not exist in the groupsnapshots list"
            raise _Refused(NOT_FOUND, text)
        if sorted(fields.get("snapshot_ids") or ()) != sorted(found.snapshots):
            text = "Snapshot IDs do not match the GroupSnapshot IDs"
            raise _Refused(INVALID_ARGUMENT, text)
        return self._group_reply(found, now)


def _given(fields: Fields, name: str, missing: str) -> Any:
    value = fields.get(name)
    if not value:
        raise _Refused(INVALID_ARGUMENT, missing)
    return value


def _volume_reply(volume: Volume) -> CsiReply:
    answer: dict[str, Any] = {"volume_id": volume.id, "capacity_bytes": volume.size}
    if volume.source:
        answer["content_source"] = {"snapshot": {"snapshot_id": volume.source}}
    if volume.copied:
        answer["content_source"] = {"volume": {"volume_id": volume.copied}}
    if volume.place:
        answer["accessible_topology"] = [{"segments": {PLACE: volume.place}}]
    return CsiReply(response={"volume": answer})


def _snapshot(snapshot: Snapshot, now: int) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "snapshot_id": snapshot.id,
        "source_volume_id": snapshot.volume,
        "size_bytes": snapshot.size,
        "creation_time": snapshot.created_ns,
        "ready_to_use": snapshot.ready_ns <= now,
    }
    if snapshot.group:
        answer["group_snapshot_id"] = snapshot.group
    return answer
