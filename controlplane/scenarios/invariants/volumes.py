"""Invariants of claims and their volumes: I17 to I20 of docs/interleavings-storage.md.

Upstream: pkg/controller/volume/persistentvolume/pv_controller.go (`syncVolume`, `syncBoundClaim`) and pvcprotection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import ENDED, PODS, note, stored

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.scenarios.engine.run import Run

__all__ = [
    "CLAIMED",
    "claims_in_use_stay",
    "one_claim_a_volume",
    "volumes_follow_their_claims",
    "volumes_keep_their_claims",
]

CLAIMS: Final = "/registry/persistentvolumeclaims/"
VOLUMES: Final = "/registry/persistentvolumes/"


def _phase(obj: Object[Any]) -> str:
    return str((obj.tree.get("status") or {}).get("phase", ""))


def volumes_follow_their_claims() -> Invariant:
    """I17: in the end a volume is bound if the claim that it names, by uid, exists, and else released."""

    def check(run: Run) -> str | None:
        living = {claim.uid: claim for claim in run.objects(CLAIMS)}
        for volume in run.objects(VOLUMES):
            uid = (volume.tree["spec"].get("claimRef") or {}).get("uid")
            if not uid or volume.metadata.get("deletionTimestamp"):
                continue
            wanted = ("Bound",) if uid in living else ("Released", "Failed")
            if _phase(volume) not in wanted:
                claim = "exists" if uid in living else "is gone"
                return f"volume {volume.name} is {_phase(volume)}, and its claim {claim}"
        return None

    return Invariant("volumes follow their claims", check)


def one_claim_a_volume(after: str) -> Invariant:
    """I18: a claim that is bound is the one, by uid, that its volume names when the claim is bound."""

    def check(run: Run) -> str | None:
        known = note(run, "claims that were bound")
        volumes = {volume.name: volume for volume in run.objects(VOLUMES)}
        for claim in run.objects(CLAIMS):
            if _phase(claim) != "Bound" or claim.uid in known:
                continue
            known[claim.uid] = True
            volume = volumes.get(claim.tree["spec"].get("volumeName", ""))
            if volume is None:
                continue  # deleted by force since
            reference = volume.tree["spec"].get("claimRef") or {}
            if reference.get("uid") not in (None, claim.uid):
                return (
                    f"claim {claim.key} ({claim.uid}) is bound to {volume.name}, "
                    f"which belongs to {reference.get('name')} ({reference.get('uid')})"
                )
        return None

    return Invariant("a volume has one claim", check, (after,), looks_at=stored(CLAIMS, VOLUMES))


def claims_in_use_stay(after: str) -> Invariant:
    """I19: a claim stays until the pods that had a node when its deletion was asked for have ended or are gone.

    Upstream: pkg/controller/volume/pvcprotection lists pods at the server before it removes the finalizer.
    """

    def check(run: Run) -> str | None:
        users: dict[str, set[str]] = note(run, "pods that use claims that go")
        claims = {claim.uid: claim for claim in run.objects(CLAIMS)}
        pods = {
            pod.uid: pod
            for pod in run.objects(PODS)
            if pod.tree["spec"].get("nodeName") and _phase(pod) not in ENDED
        }
        for uid, claim in claims.items():
            if claim.metadata.get("deletionTimestamp") and uid not in users:
                users[uid] = {pod.uid for pod in pods.values() if _uses(pod, claim)}
        for uid in [uid for uid in users if uid not in claims]:
            left = sorted(pods[pod].key for pod in users.pop(uid) if pod in pods)
            if left:
                return f"a claim of {left[0]} is gone, and the pod has not ended"
        return None

    return Invariant("claims in use stay", check, (after,), looks_at=stored(CLAIMS, PODS))


def volumes_keep_their_claims(after: str) -> Invariant:
    """I20: a volume that names a claim, by uid, names another one only after it has been given free.

    Whatever the first claim's pods wrote must not reach the next claim. Upstream: `syncBoundClaim` and `syncVolume`
    of pv_controller.go; only the user of the churn removes a reference.
    """

    def check(run: Run) -> str | None:
        known: dict[str, str] = note(run, "claims of volumes")
        for volume in run.objects(VOLUMES):
            uid = (volume.tree["spec"].get("claimRef") or {}).get("uid") or ""
            before = known.get(volume.uid)
            known[volume.uid] = uid
            if before and uid and before != uid:
                return f"volume {volume.name} belonged to claim {before}, and now to {uid}"
        return None

    return Invariant("a volume keeps its claim", check, (after,), looks_at=stored(VOLUMES))


def _uses(pod: Object[Any], claim: Object[Any]) -> bool:
    return pod.namespace == claim.namespace and any(
        (each.get("persistentVolumeClaim") or {}).get("claimName") == claim.name
        for each in pod.tree["spec"].get("volumes") or ()
    )


CLAIMED: Final = (
    volumes_follow_their_claims(),
    one_claim_a_volume("apiserver"),
    claims_in_use_stay("apiserver"),
    volumes_keep_their_claims("apiserver"),
)
"""I17 to I20: what must hold of claims in every scenario with storage."""
