"""A churn of devices: pods and claims come and go, drivers publish anew, and what is free is given again.

Users create, change and delete pods that name claims (some share one), and claims that ask for whole devices, for a
share of one, for parts of a partitionable device, or for one of several alternatives. A driver publishes its pool in a
new generation, taints devices, takes some away and brings them back. In place of the claim controller a janitor
takes reservations of pods that are gone, and allocations without any.

Not in it: the scheduler's crash between Reserve and the answer of its write, after which its successor may give the
device away once more (upstream has that gap, too).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.client.errors import ApiError
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.churns.parts import USERS, operations, pause, stored
from controlplane.scenarios.engine.scenario import Scenario, Sometimes
from controlplane.scenarios.invariants.devices import (
    AT_REST_NOTHING_IS_IN_FLIGHT,
    COUNTERS_SUFFICE,
    NO_DEVICE_IS_GIVEN_TWICE,
)
from controlplane.scenarios.invariants.scheduling import (
    EVERY_WAITING_POD_IS_QUEUED,
    NO_BOUND_POD_IS_QUEUED,
    THE_SCHEDULER_LIVES,
)

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

Tree = dict[str, Any]
API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
PODS = ("a", "b", "c", "d", "e")
CLAIMS = ("w", "x", "y", "z")
PAUSES = (0, 0, 1, 7)
REST_S = 30

OPERATIONS = operations(16)


def build(setting: Setting) -> ClusterConfig:
    """The scheduler and nodes."""
    return scheduler_alone(devices=True)(setting)


# -- objects ---------------------------------------------------------------------------------------


def _class() -> Tree:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [selector]},
    }


def _devices(taken: int, tainted: bool) -> list[Tree]:
    """Devices of a node: a whole one, one in halves with a counter, one that claims share; `taken` are not there."""
    whole: Tree = {"name": "whole", "attributes": {"kind": {"string": "whole"}}}
    if tainted:
        whole["taints"] = [{"key": "example.com/sick", "effect": "NoSchedule"}]
    halves = [
        {
            "name": f"half-{number}",
            "attributes": {"kind": {"string": "half"}},
            "consumesCounters": [{"counterSet": "card", "counters": {"slots": {"value": "1"}}}],
        }
        for number in (0, 1, 2)
    ]
    memory = {"value": "40Gi", "requestPolicy": {"default": "16Gi"}}
    shared: Tree = {
        "name": "shared",
        "attributes": {"kind": {"string": "shared"}},
        "allowMultipleAllocations": True,
        "capacity": {"memory": memory},
    }
    return [whole, *halves, shared][taken:]


def _slices(node: str, generation: int, taken: int, tainted: bool) -> list[Tree]:
    pool = {"name": node, "generation": generation, "resourceSliceCount": 2}
    common = {"driver": DRIVER, "nodeName": node, "pool": pool}
    counters = [{"name": "card", "counters": {"slots": {"value": "2"}}}]
    specs = [
        {**common, "devices": _devices(taken, tainted)},
        {**common, "sharedCounters": counters},
    ]
    return [
        {
            "apiVersion": API,
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{number}"},
            "spec": spec,
        }
        for number, spec in enumerate(specs)
    ]


def _other(user: User, options: tuple[Any, ...], usual: int, label: str) -> Any:
    """One of these: by default the one of this number, counted round, so that a calm run has some of all."""
    return options[(usual + user.choose(len(options), label)) % len(options)]


def _claim(user: User, name: str) -> Tree:
    kinds = ("whole", "half", "shared", "best", "any")
    kind: str = _other(user, kinds, CLAIMS.index(name), "what claim")

    def asks(kind: str, count: int = 1) -> Tree:
        found: Tree = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
        if kind != "any":
            text = f'device.attributes["{DRIVER}"].kind == "{kind}"'
            found["selectors"] = [{"cel": {"expression": text}}]
        return found

    request: Tree = {"name": "gpu"}
    if kind == "best":
        request["firstAvailable"] = [
            {"name": "whole", **asks("whole")},
            {"name": "halves", **asks("half", 2)},
        ]
    else:
        request["exactly"] = asks(kind)
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [request]}},
    }


def _pod(user: User, name: str) -> Tree:
    tree = pod(name, "500m")
    claims: list[str] = [_other(user, CLAIMS, PODS.index(name), "which claim")]
    if user.choose(3, "a second claim") == 1:
        claims.append(next(each for each in CLAIMS if each not in claims))
    tree["spec"]["resourceClaims"] = [{"name": each, "resourceClaimName": each} for each in claims]
    tree["spec"]["containers"][0]["resources"]["claims"] = [{"name": each} for each in claims]
    return tree


# -- what happens ----------------------------------------------------------------------------------


async def churn(user: User) -> None:
    """Devices are published, then several tasks do their share."""
    await user.attempt(user.create(_class()))
    for number in range(1, user.options["nodes"] + 1):
        for tree in _slices(f"node-{number}", 1, 0, False):
            await user.attempt(user.create(tree))
    for name in CLAIMS[:-1]:
        await user.attempt(user.create(_claim(user, name)))
    await user.divide(_share, user.options["operations"], user.options["users"])
    await user.sleep(REST_S)


async def _share(user: User, count: int) -> None:
    todo = (_some_pod, _some_pod, _some_claim, _some_pod, _publish, _tidy_up)
    for number in range(count):
        await _other(user, todo, number, "what")(user, number)
        await pause(user, PAUSES)


async def _some_pod(user: User, number: int) -> None:
    name: str = _other(user, PODS, number, "which pod")
    if name not in stored(user, "/registry/pods/"):
        await user.attempt(user.create(_pod(user, name)))
        return
    await user.attempt(user.delete("Pod", name, grace_period_seconds=0))
    if user.choose(2, "recreate at once"):
        await user.attempt(user.create(_pod(user, name)))


async def _some_claim(user: User, number: int) -> None:
    name: str = _other(user, CLAIMS, number, "which claim")
    if name not in stored(user, "/registry/resourceclaims/"):
        await user.attempt(user.create(_claim(user, name)))
    elif user.choose(3, "delete the claim") == 1:
        await user.attempt(user.delete("ResourceClaim", name))
    else:
        patch = {"metadata": {"labels": {"touched": str(user.ctx.serial())}}}
        await user.attempt(user.patch("ResourceClaim", name, patch))


async def _publish(user: User, _number: int) -> None:
    """A driver publishes its pool anew, one slice after the other. Devices in use it does not take away."""
    node = f"node-{1 + user.choose(max(1, user.options['nodes']), 'which node')}"
    found = stored(user, "/registry/resourceslices/")
    known = found.get(f"{node}-0")
    if known is None:
        return
    held = [
        result
        for claim in stored(user, "/registry/resourceclaims/").values()
        for result in _results(claim.tree)
    ]
    mine = any(each["pool"] == node and each["device"] == "whole" for each in held)
    taken = 0 if mine else user.choose(2, "the whole device is away")
    tainted = bool(user.choose(2, "the whole device is sick"))
    generation = known.tree["spec"]["pool"]["generation"] + 1
    for tree in _slices(node, generation, taken, tainted):
        await user.attempt(user.update(tree))


def _results(claim: Tree) -> list[Tree]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results: list[Tree] = (allocation.get("devices") or {}).get("results") or []
    return results


async def _tidy_up(user: User, _number: int) -> None:
    """The work of the claim controller: pods that are gone have no claim, and claims of no pod no device."""
    for name in CLAIMS:
        try:
            claim = (await user.get("ResourceClaim", name)).tree
        except ApiError:
            continue
        status = claim.get("status") or {}
        pods = stored(user, "/registry/pods/")
        users = [
            each
            for each in status.get("reservedFor") or ()
            if each["name"] in pods and pods[each["name"]].uid == each["uid"]
        ]
        if users or "allocation" not in status:
            continue
        if await user.attempt(user.update({**claim, "status": {}}, "status")):
            meta = {"metadata": {"finalizers": None}}
            await user.attempt(user.patch("ResourceClaim", name, meta))


# -- what is looked for ----------------------------------------------------------------------------


def _ever_allocated(kind: str) -> Sometimes:
    def reached(run: Run) -> bool:
        return any(
            result["device"].startswith(kind)
            for claim in run.objects("/registry/resourceclaims/")
            for result in _results(claim.tree)
        )

    return Sometimes(f"a claim has {kind}", reached)


SCENARIO = Scenario(
    "dra-churn",
    title="pods, claims and devices come and go; what is allocated is looked at",
    workload=churn,
    build=build,
    invariants=(
        THE_SCHEDULER_LIVES,
        NO_DEVICE_IS_GIVEN_TWICE,
        COUNTERS_SUFFICE,
        AT_REST_NOTHING_IS_IN_FLIGHT,
        NO_BOUND_POD_IS_QUEUED,
        EVERY_WAITING_POD_IS_QUEUED,
    ),
    sometimes=tuple(_ever_allocated(kind) for kind in ("whole", "half", "shared")),
    options=(OPERATIONS, USERS),
    defaults={"nodes": 1},
    step_limit=60_000,
)
