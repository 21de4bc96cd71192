"""A kubelet's view of the CSI volumes of its pods: wanted, attached, staged and published ones.

Upstream: pkg/kubelet/volumemanager (cache/desired_state_of_world.go, cache/actual_state_of_world.go). Times are
nanoseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import define, field, frozen

from controlplane.api.csi import UNFINISHED, unique_name
from controlplane.api.times import MILLISECOND, SECOND
from controlplane.api.tree import Tree

if TYPE_CHECKING:
    from controlplane.api.pod import Pod

LOOP_NS: Final = 100 * MILLISECOND
"""The pause after a pass of the populator, or of the reconciler."""
CALL_NS: Final = 120 * SECOND
"""So long a call to the driver may take."""
FIRST_DELAY: Final = 500 * MILLISECOND
LARGEST_DELAY: Final = 122 * SECOND

Place = tuple[str, str]
"""A pod's uid and the name of a volume in it."""


@frozen
class PodVolume:
    """A volume of a pod, with what has to be passed to its driver."""

    uid: str
    name: str
    volume: str
    driver: str
    handle: str
    attaches: bool
    spec: Tree = field(factory=dict, repr=False)
    """Of the PersistentVolume."""

    @property
    def unique(self) -> str:
        """The volume's name in the node's status."""
        return unique_name(self.driver, self.handle)

    @property
    def target(self) -> str:
        """The volume's path in the pod."""
        return f"/var/lib/kubelet/pods/{self.uid}/volumes/kubernetes.io~csi/{self.volume}/mount"

    @property
    def staging(self) -> str:
        """The volume's path on the node, for all pods."""
        return f"/var/lib/kubelet/plugins/kubernetes.io/csi/{self.driver}/{self.handle}/globalmount"


@define
class Mounts:
    """Mounts on a machine: they outlive the kubelet's process."""

    staged: dict[str, PodVolume] = field(factory=dict)
    """By unique name; of whichever pod wanted it first."""
    published: dict[Place, PodVolume] = field(factory=dict)


@frozen
class Lookup:
    """A volume that a pod's claim is bound to, and of which nothing more is known."""

    pod: Pod
    name: str
    claim: str
    claim_uid: str
    volume: str


@define
class _Operation:
    pending: bool = True
    delay: int = 0
    due: int = 0


@define
class PodVolumes:
    """The desired and the actual state of one kubelet."""

    mounts: Mounts
    lookups: dict[Place, Lookup] = field(factory=dict)
    wanted: dict[Place, PodVolume] = field(factory=dict)
    dropped: dict[str, None] = field(factory=dict)
    """Pods that have ended, of which it has not been taken in yet."""
    errors: dict[Place, str] = field(factory=dict)
    """The reason why a volume could not be looked up, the last time."""
    plain: dict[Place, None] = field(factory=dict)
    """Volumes that no CSI driver of the node serves: there is nothing to be done about them."""
    attached: dict[str, None] = field(factory=dict)
    sure: dict[Place, None] = field(factory=dict)
    """Volumes that this process published. Other published ones are uncertain: an earlier process published them, or
    the driver's answer does not tell whether it did."""
    uncertain_devices: dict[str, None] = field(factory=dict)
    """Staged volumes, by unique name, of which the driver's answer does not tell whether they are."""
    reported: tuple[str, ...] = ()
    """The volumes that the node's status is known to show as in use."""
    _operations: dict[Place, _Operation] = field(factory=dict)
    _reconstructed: dict[Place, None] = field(factory=dict)
    """Volumes that an earlier process published."""

    _reconstructed_devices: dict[str, None] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self._reconstructed = dict.fromkeys(self.mounts.published)
        self.uncertain_devices = dict.fromkeys(self.mounts.staged)
        self._reconstructed_devices = dict.fromkeys(self.mounts.staged)

    def look(self, pod: Pod, name: str, claim: Tree) -> str | None:
        """Return whether a pod has a volume: "" if so, why not if that is known, None if it is on its way.

        It is wanted from now on.
        """
        place = (pod.uid, name)
        if place in self.plain or (place in self.sure and place in self.mounts.published):
            return ""
        if place not in self.wanted and place not in self.lookups:
            metadata = claim["metadata"]
            self.lookups[place] = Lookup(
                pod, name, metadata["name"], metadata["uid"], claim["spec"]["volumeName"]
            )
        return self.errors.get(place)

    def take_in(self, lookup: Lookup, found: PodVolume | None) -> None:
        """Take over the result of a lookup; None if no driver of the node serves the volume."""
        place = (lookup.pod.uid, lookup.name)
        self.lookups.pop(place, None)
        self.errors.pop(place, None)
        if found is None:
            self.plain[place] = None
        else:
            self.wanted[place] = found

    def drop(self, uid: str) -> bool:
        """A pod wants nothing any more; whether it had wanted anything."""
        places = [
            place
            for kept in (self.lookups, self.wanted, self.plain, self.errors)
            for place in kept
            if place[0] == uid
        ]
        for place in places:
            for kept in (self.lookups, self.wanted, self.plain, self.errors):
                kept.pop(place, None)
        return bool(places)

    def released(self, uid: str) -> bool:
        """Return whether no volume of a pod is known to be mounted, and none is wanted.

        Volumes whose mount is uncertain do not count, as in upstream's PodHasMountedVolumes: the reconciler unmounts
        them when the pod is gone. Those of an earlier process do count here.
        """
        kept = (self.lookups, self.wanted, self.sure, self._reconstructed)
        return not any(place[0] == uid for each in kept for place in each)

    def known_mounts(self, uid: str) -> set[str]:
        """Return the handles of the volumes that `released` waits for: those that are mounted for certain, or were."""
        places = (place for kept in (self.sure, self._reconstructed) for place in kept)
        published = self.mounts.published
        return {published[each].handle for each in places if each[0] == uid and each in published}

    def in_use(self) -> list[str]:
        """Return the volumes to show as in use: wanted or still mounted ones, of those attached."""
        found = dict.fromkeys(
            each.unique
            for kept in (self.wanted, self.mounts.staged)
            for each in kept.values()
            if each.attaches
        )
        return sorted(found)

    # ------------------------------------------------------------------ what is to be done

    def to_unpublish(self) -> list[PodVolume]:
        """Return the published volumes that are wanted no more."""
        published = self.mounts.published.items()
        return [each for place, each in published if place not in self.wanted]

    def to_mount(self) -> list[PodVolume]:
        """Return the wanted volumes that are not known to be published."""
        return [each for place, each in self.wanted.items() if place not in self.sure]

    def unused(self) -> list[str]:
        """Return the volumes that are staged or attached although no pod wants or has them."""
        used = {each.unique for each in self.wanted.values()}
        used.update(each.unique for each in self.mounts.published.values())
        known = dict.fromkeys((*self.mounts.staged, *self.attached))
        return [unique for unique in known if unique not in used]

    # ------------------------------------------------------------------ operations

    def needs_staging(self, unique: str) -> bool:
        """Return whether a volume is not known to be staged."""
        return unique not in self.mounts.staged or unique in self.uncertain_devices

    def staging(self, each: PodVolume) -> None:
        """NodeStageVolume is about to be called: from now on the volume may be staged, also for a later process.

        Upstream saves the data that a later process finds before the call (MountDevice of csi_attacher.go).
        """
        if each.unique not in self.mounts.staged:
            self.mounts.staged[each.unique] = each
            self.uncertain_devices[each.unique] = None

    def staged(self, each: PodVolume) -> None:
        """The driver has staged a volume."""
        self.uncertain_devices.pop(each.unique, None)
        self._reconstructed_devices.pop(each.unique, None)

    def staging_failed(self, each: PodVolume, code: str) -> None:
        """NodeStageVolume failed with a gRPC code. Upstream: markDeviceErrorState of operation_generator.go."""
        certain = code not in UNFINISHED and each.unique not in self._reconstructed_devices
        if certain and each.unique in self.uncertain_devices:
            self.unstaged(each)

    def unstaged(self, each: PodVolume) -> None:
        """The driver has unstaged a volume."""
        self.mounts.staged.pop(each.unique, None)
        self.uncertain_devices.pop(each.unique, None)
        self._reconstructed_devices.pop(each.unique, None)

    def publishing(self, each: PodVolume) -> None:
        """NodePublishVolume is about to be called: from now on the volume may be published."""
        self.mounts.published.setdefault((each.uid, each.name), each)

    def published(self, each: PodVolume) -> None:
        """The driver has published a volume to its pod."""
        self.sure[each.uid, each.name] = None
        self._reconstructed.pop((each.uid, each.name), None)

    def publishing_failed(self, each: PodVolume, code: str) -> None:
        """NodePublishVolume failed with a gRPC code. Upstream: markVolumeErrorState of operation_generator.go."""
        place = (each.uid, each.name)
        if code not in UNFINISHED and place not in self.sure and place not in self._reconstructed:
            self.mounts.published.pop(place, None)

    def unpublished(self, each: PodVolume) -> None:
        """The driver has taken a volume from its pod."""
        place = (each.uid, each.name)
        self.mounts.published.pop(place, None)
        self.sure.pop(place, None)
        self._reconstructed.pop(place, None)

    def may_begin(self, unique: str, uid: str, now: int) -> bool:
        """Return whether an operation on a volume (of one pod, or "" for all) may begin."""
        for (volume, pod), found in self._operations.items():
            if volume == unique and (not uid or not pod or uid == pod):
                if found.pending or found.due > now:
                    return False
        return True

    def begin(self, unique: str, uid: str) -> None:
        """An operation begins."""
        self._operations.setdefault((unique, uid), _Operation()).pending = True

    def end(self, unique: str, uid: str, now: int, *, failed: bool) -> None:
        """It is over; if it failed the next one waits, each time twice as long."""
        if not failed:
            self._operations.pop((unique, uid), None)
            return
        found = self._operations[unique, uid]
        found.pending = False
        found.delay = min(2 * found.delay, LARGEST_DELAY) if found.delay else FIRST_DELAY
        found.due = now + found.delay

    def next_try(self, now: int) -> int | None:
        """Return the time at which the next failed operation may be tried again."""
        times = [each.due for each in self._operations.values() if not each.pending]
        return min((due for due in times if due > now), default=None)
