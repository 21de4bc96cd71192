"""File systems of containers: what their image and the API give, and what was written since, on disks of the machines.

A `Disks` holds the content of all places that outlive a program: of volumes, of directories of nodes and of the
writable layer of each container. A volume of a CSI driver has its content at the driver. The data path is no message:
as in reality a mounted volume is read and written past the driver's calls.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

from attrs import define, field

from controlplane.api.container_inside import Inside, Mount

__all__ = [
    "DISKS_LIMIT",
    "FILES",
    "FILES_LIMIT",
    "VOLUME",
    "Device",
    "Disks",
    "Files",
    "Hardware",
    "NoSpace",
    "ReadOnly",
]

FILES_LIMIT: Final = 64 << 20
"""The limit, in bytes, of all files of one place."""
FILES: Final = 4096
"""The maximum number of files of one place."""
DISKS_LIMIT: Final = 512 << 20
"""The limit, in bytes, of all places together."""
VOLUME: Final = "volume/"
"""Prefix of places that are persistent volumes: the name of the PersistentVolume follows."""

Content = Mapping[str, bytes | None]
"""Files by path relative to the place, without a leading slash; None hides a file of the image."""
_NOTHING: Final[Content] = {}


class NoSpace(Exception):
    """A disk is full."""


class Hardware:
    """Something that actors reach past messages, as programs reach the disks of their machine."""


class Device(Protocol):
    """A CSI driver, as far as its volumes hold files."""

    def files_of(self, handle: str) -> Mapping[str, bytes]:
        """Return the files of a volume; none of an unknown one."""

    def put_file(self, handle: str, path: str, data: bytes | None) -> None:
        """Write a file of a volume, or (None) remove it; without effect for an unknown volume."""


@define(eq=False)
class Disks(Hardware):
    """The content of all places, by name. `device_of` finds the driver and the handle behind a PersistentVolume."""

    device_of: Callable[[str], tuple[Device, str] | None] = lambda _name: None
    places: dict[str, dict[str, bytes | None]] = field(factory=dict)
    _sizes: dict[str, int] = field(factory=dict)
    _total: int = 0

    def content(self, place: str) -> Content:
        """Return the files of a place."""
        found = self._device(place)
        if found is not None:
            return found[0].files_of(found[1])
        return self.places.get(place, _NOTHING)

    def put(self, place: str, path: str, data: bytes | None, *, hides: bool = False) -> None:
        """Write a file, or (None) remove it; `hides` keeps the removal. Raises NoSpace."""
        before = self.content(place)
        old = before.get(path)
        grown = len(data or b"") - len(old or b"")
        used = self._sizes.get(place, 0) + grown
        if data is not None and (
            used > FILES_LIMIT
            or (path not in before and len(before) >= FILES)
            or self._total + max(grown, 0) > DISKS_LIMIT
        ):
            raise NoSpace
        self._sizes[place] = used
        self._total += grown
        found = self._device(place)
        if found is not None:
            found[0].put_file(found[1], path, data)
        elif data is not None or hides:
            self.places.setdefault(place, {})[path] = data
        else:
            self.places.get(place, {}).pop(path, None)

    def forget(self, prefix: str) -> None:
        """Drop the places whose names begin so."""
        for place in [each for each in self.places if each.startswith(prefix)]:
            del self.places[place]
            self._total -= self._sizes.pop(place, 0)

    def _device(self, place: str) -> tuple[Device, str] | None:
        return self.device_of(place.removeprefix(VOLUME)) if place.startswith(VOLUME) else None


Changed = Callable[[str, str, bytes | None, bool], None]
"""Is told of each write: place, path, content, and whether a removal is kept."""


class ReadOnly(NoSpace):
    """A file is in a place that is mounted to be read."""


@define
class Files:
    """The files of one container. `changed` is told of what is written, in place of writing it to the disks."""

    inside: Inside
    disks: Disks = field(factory=Disks)
    changed: Changed | None = None
    pending: dict[tuple[str, str], bytes | None] = field(factory=dict)
    """Writes that were passed to `changed` and may not be on the disks yet."""
    _used: dict[str, list[int]] = field(factory=dict)
    """By place, bytes and files, where `changed` is told of writes."""

    def _place(self, path: str) -> tuple[str, str, Mount | None]:
        """The place that holds a path, the path there, and the mount of it."""
        found: Mount | None = None
        for each in self.inside.mounts:
            if (path == each.path or path.startswith(each.path.rstrip("/") + "/")) and (
                found is None or len(each.path) > len(found.path)
            ):
                found = each
        if found is None:
            return self.inside.layer, path.lstrip("/"), None
        rest = path[len(found.path) :].lstrip("/")
        return found.place, posixpath.join(found.sub_path, rest).rstrip("/"), found

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        place, inner, mount = self._place(path)
        if (place, inner) in self.pending:
            return self.pending[place, inner]
        content = self.disks.content(place)
        if inner in content:
            return content[inner]
        return (
            self.inside.files.get(path)
            if mount is None or mount.of_api or not mount.place
            else None
        )

    def all(self) -> dict[str, bytes]:
        """Return all files by path."""
        return {path: data for path, data in self.entries().items() if not path.endswith("/")}

    def entries(self) -> dict[str, bytes]:
        """Return all files by path, and empty directories, whose paths end with a slash."""
        found: dict[str, bytes | None] = dict(self.inside.files)
        found.update((f"/{path}", data) for path, data in self._in(self.inside.layer))
        for mount in self.inside.mounts:
            base = f"{mount.sub_path}/" if mount.sub_path else ""
            for path, data in self._in(mount.place):
                if path == mount.sub_path:
                    found[mount.path] = data
                elif path.startswith(base):
                    found[f"{mount.path.rstrip('/')}/{path[len(base) :]}"] = data
        return {path: data for path, data in found.items() if data is not None}

    def _in(self, place: str) -> Iterator[tuple[str, bytes | None]]:
        content = self.disks.content(place)
        yield from content.items()
        for (where, path), data in self.pending.items():
            if where == place:
                yield path, data

    @property
    def count(self) -> int:
        """The number of files, for the counting of work; files that are removed may be counted, too."""
        places = (self.inside.layer, *(each.place for each in self.inside.mounts))
        return (
            len(self.inside.files)
            + len(self.pending)
            + sum(len(self.disks.content(each)) for each in places)
        )

    def is_read_only(self, path: str) -> bool:
        """Return whether a path is in a volume, or in a root file system, that is only read."""
        if path == "/dev" or path.startswith("/dev/"):
            return False
        mount = self._place(path)[2]
        return self.inside.read_only if mount is None else mount.read_only

    def keep(self, path: str, data: bytes) -> None:
        """Write a file. Raises NoSpace, or ReadOnly."""
        if self.is_read_only(path):
            raise ReadOnly
        place, inner, _ = self._place(path)
        self._write(place, inner, data, hides=False)

    def remove(self, path: str) -> None:
        """Remove a file. Raises ReadOnly."""
        if self.is_read_only(path):
            raise ReadOnly
        place, inner, _ = self._place(path)
        self._write(place, inner, None, hides=path in self.inside.files)
        folder = f"{inner}/"
        if folder in self.disks.content(place) or (place, folder) in self.pending:
            self._write(place, folder, None, hides=False)

    def _write(self, place: str, inner: str, data: bytes | None, *, hides: bool) -> None:
        if self.changed is None:
            self.disks.put(place, inner, data, hides=hides)
            return
        if data is not None:
            self._check(place, inner, data)
        self.pending[place, inner] = data
        self.changed(place, inner, data, hides)

    def _check(self, place: str, inner: str, data: bytes) -> None:
        used = self._used.get(place)
        if used is None:
            known = list(self.disks.content(place).values())
            used = self._used[place] = [sum(len(each or b"") for each in known), len(known)]
        old = self.pending.get((place, inner))
        if old is None:
            old = self.disks.content(place).get(inner)
        used[0] += len(data) - len(old or b"")
        used[1] += old is None
        if used[0] > FILES_LIMIT or used[1] > FILES:
            used[0] -= len(data) - len(old or b"")
            used[1] -= old is None
            raise NoSpace

    def make_folder(self, path: str) -> None:
        """Make a directory: a file whose name ends with a slash. Raises NoSpace, or ReadOnly."""
        if self.is_read_only(path):
            raise ReadOnly
        place, inner, _ = self._place(path)
        if inner:
            self._write(place, f"{inner}/", b"", hides=False)

    def is_folder(self, path: str, always: Iterable[str] = ()) -> bool:
        """Return whether a directory exists: of a file, of a mount, or one of those that are there `always`."""
        if path in always or path == self.inside.directory:
            return True
        base = f"{path.rstrip('/')}/"
        mounted = self.inside.folders
        if path in mounted or any(each.startswith(base) for each in mounted):
            return True
        place, inner, _ = self._place(path)  # the kubelet makes the directory of a sub-path
        if any(
            each.sub_path and each.place == place and f"{each.sub_path}/".startswith(f"{inner}/")
            for each in self.inside.mounts
        ):
            return True
        return any(each.startswith(base) for each in self.entries())
