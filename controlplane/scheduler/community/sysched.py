"""SySched: prefer nodes whose pods use much the same system calls.

Upstream: pkg/sysched/sysched.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from controlplane.api.go_integers import divide, int64
from controlplane.client.resources import Resource
from controlplane.scheduler.community.args import arguments
from controlplane.scheduler.community.scores import MOST
from controlplane.scheduler.framework.custom import CustomKind, CustomObjects
from controlplane.scheduler.framework.interface import NormalizeScorePlugin
from controlplane.scheduler.framework.notified import PodHandler

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.framework.interface import Status
    from controlplane.scheduler.state.node_info import NodeInfo

SECCOMP_PROFILE: Final = CustomKind(
    "SeccompProfile",
    Resource("security-profiles-operator.x-k8s.io", "v1beta1", "seccompprofiles"),
)
UNCONFINED: Final = (1 << 63) - 1
"""The raw score where nothing is known of the pod's system calls."""
_ANNOTATION: Final = "seccomp.security.alpha.kubernetes.io"
_COUNTED: Final = ("SCMP_ACT_ALLOW", "SCMP_ACT_LOG")

Calls = frozenset[str]


class SySched(NormalizeScorePlugin, PodHandler):
    """The calls that a pod and those beside it are exposed to and do not use; fewer is better.

    `profiles` holds objects of kind SeccompProfile.
    """

    name = "SySched"
    custom = (SECCOMP_PROFILE,)

    def __init__(
        self, args: Mapping[str, Any] | None, handle: Handle, profiles: CustomObjects | None = None
    ) -> None:
        given = arguments(self.name, args)
        self._default = (given["DefaultProfileNamespace"], given["DefaultProfileName"])
        self._profiles = handle.custom if profiles is None else profiles
        self._pods: dict[str, list[Pod]] = {}
        self._calls: dict[str, Calls] = {}

    # -- notifications of pods ---------------------------------------------------------------------

    def pod_added(self, pod: Pod) -> None:
        """Count a pod that runs already."""
        if pod.status.phase == "Running":
            self._count(pod)

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """Count a pod that has a host and did not run; upstream looks at the pod as it was."""
        if old.status.phase == "Pending" and old.tree.get("status", {}).get("hostIP"):
            self._count(old)

    def pod_deleted(self, pod: Pod) -> None:
        """Forget a pod, by its name alone; the last one takes its place in the order."""
        pods = self._pods.get(pod.spec.node_name)
        for at, each in enumerate(pods or ()):
            if pods is not None and each.name == pod.name:
                pods[at] = pods[-1]
                pods.pop()
                union: Calls = frozenset()
                self._calls[pod.spec.node_name] = union.union(*map(self._of, pods))
                return

    def _count(self, pod: Pod) -> None:
        node = pod.spec.node_name
        pods = self._pods.setdefault(node, [])
        if all(each.name != pod.name for each in pods):
            pods.append(pod)
            self._calls[node] = self._calls.get(node, frozenset()) | self._of(pod)

    # -- profiles ----------------------------------------------------------------------------------

    def _of(self, pod: Pod) -> Calls:
        """Return the system calls of a pod: those of its profiles, else those of the default one."""
        found: Calls = frozenset()
        for path in _local_profiles(pod.tree.get("spec") or {}):
            found |= self._read(*_place(path)) or frozenset()
        for key, path in ((pod.tree["metadata"].get("annotations")) or {}).items():
            if _ANNOTATION in key:
                read = self._read(*_place(path))
                if read is not None:
                    found |= read
                    break
        return found or self._read(*self._default) or found

    def _read(self, namespace: str, name: str) -> Calls | None:
        """Return the calls that a profile allows; None without the profile."""
        if not namespace or not name:
            return frozenset()
        profile = self._profiles.get("SeccompProfile", namespace, name)
        if profile is None:
            return None
        found: Calls = frozenset()
        for each in (profile.get("spec") or {}).get("syscalls") or ():
            if each.get("action") in _COUNTED:
                found |= frozenset(each.get("names") or ())
        return found

    # -- scores ------------------------------------------------------------------------------------

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """A number of any size; it is normalised."""
        own = self._of(pod)
        if not own:
            return UNCONFINED
        there = self._calls.get(node.name)
        if there is None:
            return 0
        together = there | own
        beside = self._pods.get(node.name, ())
        return len(there - own) + sum(len(together - self._of(each)) for each in beside)

    def normalize(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo], scores: list[int]
    ) -> Status | None:
        """The highest is 0. The product wraps around at 64 bits as upstream's does."""
        highest = max(scores, default=0)
        for at, score in enumerate(scores):
            scores[at] = MOST - (divide(int64(MOST * score), highest) if highest else 0)
        return None


def _local_profiles(spec: Mapping[str, Any]) -> Iterator[str]:
    for each in (spec, *(spec.get("containers") or ())):
        profile = (each.get("securityContext") or {}).get("seccompProfile") or {}
        if profile.get("type") == "Localhost" and profile.get("localhostProfile") is not None:
            yield profile["localhostProfile"]


def _place(path: str) -> tuple[str, str]:
    """Return namespace and name of a profile by its path `.../NAMESPACE/NAME.json`; both "" without them."""
    parts = path.split("/")
    if len(parts) < 2:
        return "", ""
    last = parts[-1]
    dot = last.rfind(".")
    namespace, name = parts[-2], last if dot < 0 else last[:dot]
    return (namespace, name) if namespace and name else ("", "")
