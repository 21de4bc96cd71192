"""A pod's volumes on their way to being there, with upstream's retries.

Upstream: pkg/kubelet/volumemanager (WaitForAttachAndMount, the populator and the reconciler). Tries that
would fail as the one before are left out, and so are the events that only repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import attrs

from controlplane.api.pod import Pod
from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.kubelet.pod.references import (
    CLAIMS,
    Find,
    claim_error,
    set_up_error,
    volumes_of,
)
from controlplane.kubelet.pod.tokens import FIRST_DELAY, LARGEST_DELAY, Tokens

CLAIM_DELAY: Final = 10 * SECOND
"""A claim that cannot be processed fails the whole sync, which is tried again then."""


@attrs.define
class Retry:
    """The time of the next try after a failure: each delay twice the one before, up to the largest."""

    error: str
    at: int
    delay: int
    largest: int

    promising: bool = False
    """The next try is worth it."""

    def armed(self, now: int) -> int:
        """The next try would find something: when it is. Tries that lie behind are passed over."""
        while not self.promising and self.at < now:
            self.delay = min(2 * self.delay, self.largest)
            self.at += self.delay
        self.promising = True
        return self.at

    def due(self, now: int) -> bool:
        """Return whether it is time, of one that is worth it."""
        return self.promising and self.at <= now


@attrs.define
class _Volume:
    tree: Tree
    failed: Retry | None = None

    @property
    def name(self) -> str:
        found: str = self.tree["name"]
        return found


class Volumes(Protocol):
    """The volume manager of a node's CSI drivers."""

    def look(self, pod: Pod, volume: str, claim: Tree) -> str | None:
        """Return whether a pod has the volume of its claim: "" if so, why not if that is known, None if it is on its
        way.
        """

    def released(self, uid: str) -> bool:
        """Return whether nothing of a pod that has ended is mounted any more; if not, that is begun."""


class Mounting:
    """The volumes of one pod that are not there yet."""

    __slots__ = ("_find", "_left", "_tokens", "_volumes")

    def __init__(
        self, pod: Pod, find: Find, volumes: Volumes | None = None, tokens: Tokens | None = None
    ) -> None:
        self._find = find
        self._volumes = volumes
        self._tokens = tokens
        self._left: Sequence[_Volume] = tuple(_Volume(each) for each in volumes_of(pod))

    def advance(self, pod: Pod, now: int) -> list[str]:
        """Try what is due; what is to be said of it (events FailedMount)."""
        if not self._left:
            return []
        said: list[str] = []
        for volume in self._left:
            claim = self._claim_error(pod, volume)
            error = self._error(pod, volume, claim)
            if error is None:
                continue
            failed = volume.failed
            if failed is not None:
                if failed.error == error:
                    failed.promising = False
                    continue
                if failed.armed(now) > now:
                    continue
            if not error:
                self._left = tuple(each for each in self._left if each is not volume)
            else:
                delay = CLAIM_DELAY if claim else FIRST_DELAY
                largest = CLAIM_DELAY if claim else LARGEST_DELAY
                volume.failed = Retry(error, now + delay, delay, largest)
                said.append(self._failure(volume, error, of_claim=bool(claim)))
        return said

    @property
    def done(self) -> bool:
        """Return whether containers can be made."""
        return not self._left

    def next_try(self, pod: Pod, now: int) -> int | None:
        """Return the time of the next try that would not fail as the last one did."""
        times: list[int] = []
        for volume in self._left:
            error = self._error(pod, volume, self._claim_error(pod, volume))
            if error is None:
                continue
            if volume.failed is not None and volume.failed.error != error:
                times.append(volume.failed.armed(now))
        return min(times, default=None)

    def _error(self, pod: Pod, volume: _Volume, claim: str | None) -> str | None:
        """Return why a volume is not there, "" if it can be; None while its parts are on their way."""
        if claim != "":
            return claim
        token: str | None = ""
        if self._tokens is not None and "projected" in volume.tree:
            token = self._tokens.look(pod, volume.name)
        error = set_up_error(pod, volume.tree, self._find, token or "")
        return None if token is None and not error else error

    def _claim_error(self, pod: Pod, volume: _Volume) -> str | None:
        """Return why a volume's claim cannot be processed; None while its driver's volume is on its way."""
        error = claim_error(pod, volume.tree, self._find)
        source = volume.tree.get("persistentVolumeClaim")
        if error or not source or self._volumes is None:
            return error
        return self._volumes.look(pod, volume.name, self._find(CLAIMS, source["claimName"]))

    def _failure(self, volume: _Volume, error: str, *, of_claim: bool) -> str:
        if not of_claim:
            return f'MountVolume.SetUp failed for volume "{volume.name}" : {error}'
        waiting = " ".join(sorted(each.name for each in self._left))
        return (
            f"Unable to attach or mount volumes: unmounted volumes=[{waiting}], unattached "
            f"volumes=[], failed to process volumes=[{volume.name}]: {error}"
        )
