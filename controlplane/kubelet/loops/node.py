"""The kubelet and its Node object: registration, the lease, the report of its conditions, and what it hears.

Points: `kubelet.register`, `kubelet.lease`, `kubelet.status`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors import LinkBroken
from controlplane.api.csi import MANAGED_ATTACH
from controlplane.client.errors import ApiError, is_already_exists, is_conflict, is_not_found
from controlplane.client.loops.clientset import LEASES, NODES, Client
from controlplane.client.loops.informer import Informer, handler
from controlplane.kubelet.loops.carrying_out import carry_out
from controlplane.kubelet.loops.shared import RETRY_NS
from controlplane.kubelet.node import node_status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors import Condition, Context
    from controlplane.api.node import Node
    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.kubelet.loops.host import Host
    from controlplane.kubelet.loops.shared import Shared

TRIES = 5
"""The number of tries of a lease or a report in one round."""
LEASE_BACK_OFF_NS = 100_000_000
LEASE_BACK_OFF_MOST_NS = 7_000_000_000


async def register(
    ctx: Context, client: Client, tree: dict[str, Any], host: Host, epoch_ns: int
) -> Node:
    """Create the Node, or take over the one of an earlier life; retry until the API server answers.

    The annotation for the attach-detach controller is written to a Node that exists, too: a driver may have come since.
    Upstream: reconcileCMADAnnotationWithExistingNode.
    """
    wanted = node_status.adopted(tree, epoch_ns + ctx.now, ip=host.host_ip)
    while True:
        try:
            try:
                made = (await client.create(NODES, wanted)).view
            except ApiError as error:
                if not is_already_exists(error):
                    raise
                found = await client.get(NODES, "", tree["metadata"]["name"])
                notes = found.tree["metadata"].get("annotations") or {}
                attach = (tree["metadata"].get("annotations") or {}).get(MANAGED_ATTACH)
                if attach and notes.get(MANAGED_ATTACH) != attach:
                    change = {"metadata": {"annotations": {MANAGED_ATTACH: attach}}}
                    found = await client.patch(NODES, "", found.name, change)
                made = found.view
        except (ApiError, LinkBroken) as error:
            ctx.log("kubelet.error", data={"message": f"unable to register node: {error}"})
            await ctx.sleep(RETRY_NS, point="kubelet.register")
        else:
            return made


async def join(ctx: Context, client: Client, tree: Tree, host: Host, epoch_ns: int) -> Node | None:
    """Take over a Node that a client made; retry until the API server answers. None if the Node is gone."""
    name = tree["metadata"]["name"]
    while True:
        try:
            found = await client.get(NODES, "", name)
            now = epoch_ns + ctx.now
            wanted = node_status.adopted(tree, now, ip=host.host_ip)
            metadata, status = node_status.joining(found.tree, wanted, now)
            if metadata:
                await client.patch(NODES, "", name, metadata)
            return (await client.patch(NODES, "", name, status, subresource="status")).view
        except (ApiError, LinkBroken) as error:
            if isinstance(error, ApiError) and is_not_found(error):
                return None
            ctx.log("kubelet.error", data={"message": f"unable to register node: {error}"})
            await ctx.sleep(RETRY_NS, point="kubelet.register")


def managed(tree: Tree) -> Tree:
    """A node whose volumes the attach-detach controller attaches."""
    metadata = tree["metadata"]
    notes = {**(metadata.get("annotations") or {}), MANAGED_ATTACH: "true"}
    return {**tree, "metadata": {**metadata, "annotations": notes}}


def watch(shared: Shared, changed: Condition, told: Callable[[Node, Node], None]) -> Informer[Node]:
    """An informer of the own Node, which keeps `shared.node` up to date and tells of every change."""

    def heard(obj: Object[Node]) -> None:
        old, shared.node = shared.node, obj.view
        told(old, obj.view)
        changed.notify_all()

    informer = Informer(
        shared.ctx,
        NODES,
        server=shared.server,
        immediate=True,
        fieldSelector=f"metadata.name={shared.node.name}",
    )
    informer.add_handler(handler(heard, lambda _old, new: heard(new), lambda _obj, _unknown: None))
    informer.start()
    return informer


async def renew_lease(ctx: Context, shared: Shared) -> None:
    """Renew the node's lease every ten seconds. Idle: a heartbeat does not keep a run from settling.

    Upstream: component-helpers' lease controller: the lease last returned is written without reading it;
    after a conflict it is read again, with a back-off from 100 ms to 7 s.
    """
    client = Client(ctx, shared.server)
    latest: Tree | None = None
    while True:
        latest = await _renewed(ctx, shared, client, latest)
        await ctx.sleep(node_status.LEASE_RENEW_INTERVAL, idle=True, point="kubelet.lease")


async def _renewed(
    ctx: Context, shared: Shared, client: Client, latest: Tree | None
) -> Tree | None:
    """One round: the lease as it is now, None if that is not known."""
    name, wait = shared.node.name, LEASE_BACK_OFF_NS
    for _ in range(TRIES):
        try:
            if latest is None:
                latest = await _ensured(shared, client)
            return (await client.update(LEASES, node_status.renewed(latest, shared.now()))).tree
        except LinkBroken:
            latest = None
        except ApiError as error:
            latest = None
            if not is_conflict(error):
                shared.error(f"failed to update lease of {name}: {error}")
        await ctx.sleep(wait, idle=True, point="kubelet.lease")
        wait = min(2 * wait, LEASE_BACK_OFF_MOST_NS)
    return latest


async def _ensured(shared: Shared, client: Client) -> Tree:
    """The lease, made if there is none."""
    name = shared.node.name
    try:
        return (await client.get(LEASES, node_status.LEASE_NAMESPACE, name)).tree
    except ApiError as error:
        if not is_not_found(error):
            raise
    made = node_status.lease(name, shared.now(), node_uid=shared.node.uid)
    return (await client.create(LEASES, made)).tree


async def report_status(ctx: Context, shared: Shared, changed: Condition) -> None:
    """Report the node's conditions: every five minutes, and when the API server shows others.

    Upstream computes them every ten seconds and compares with what the node informer has; that pass is
    left out while it would find nothing.
    """
    client = Client(ctx, shared.server)
    reported = ctx.now
    while True:
        due = reported + node_status.STATUS_REPORT_INTERVAL
        if shared.volumes is not None and not _in_use_changed(shared):
            shared.volumes.reported(shared.volumes.in_use())
        expiry = None if shared.devices is None else shared.devices.expiry()
        if expiry is not None:
            due = min(due, max(expiry, ctx.now))
        if _shows_otherwise(shared):
            due = min(due, shared.next_tick(node_status.STATUS_INTERVAL // 1_000_000_000))
        if due > ctx.now:
            # Others act on it: a run does not settle before.
            idle = not (
                _pressure_changed(shared) or _in_use_changed(shared) or _devices_changed(shared)
            )
            await changed.wait(due - ctx.now, idle=idle, point="kubelet.status")
            if ctx.now < due:
                continue
        if shared.devices is not None:
            await carry_out(ctx, shared.host, shared.devices.remove_expired())
        if await _reported(shared, client):
            reported = ctx.now
        else:
            await ctx.sleep(node_status.STATUS_INTERVAL, idle=True, point="kubelet.status")


def _pressure_changed(shared: Shared) -> bool:
    """Return whether the API server shows a pressure that the node is not under any more, or lacks one."""
    shown = {each.type for each in shared.node.status.conditions if each.status == "True"}
    return any((kind in shared.under_pressure) != (kind in shown) for kind in node_status.PRESSURES)


def _in_use_changed(shared: Shared) -> bool:
    """Return whether the API server shows other volumes as in use than are."""
    if shared.volumes is None:
        return False
    shown = (shared.node.tree.get("status") or {}).get("volumesInUse") or []
    return shared.volumes.in_use() != shown


def _devices_changed(shared: Shared) -> bool:
    """Return whether the API server shows other amounts of device plugins' resources than there are."""
    if shared.devices is None:
        return False
    status = shared.node.tree.get("status") or {}
    return any(
        (status.get(part) or {}).get(name) != amount
        for part, amounts in zip(("capacity", "allocatable"), shared.devices.amounts(), strict=True)
        for name, amount in amounts.items()
    )


def _shows_otherwise(shared: Shared) -> bool:
    """Return whether the API server shows a condition that is not the kubelet's, Ready being Unknown say."""
    if _in_use_changed(shared) or _devices_changed(shared):
        return True
    shown = shared.node.tree.get("status") or {}
    conditions = node_status.conditions(
        shared.now(), shown.get("conditions"), pressure=shared.under_pressure
    )
    return node_status.status_due(
        {"conditions": conditions}, {"conditions": shown.get("conditions")}, 0, 0
    )


async def _reported(shared: Shared, client: Client) -> bool:
    """One report, tried five times: the first try starts from the node as it was heard of, others from the store."""
    found: Tree = shared.node.tree
    for attempt in range(TRIES):
        try:
            if attempt:
                found = (await client.get(NODES, "", shared.node.name)).tree
            before = (found.get("status") or {}).get("conditions")
            pressure = shared.under_pressure
            conditions = node_status.conditions(shared.now(), before, pressure=pressure)
            status: Tree = {"conditions": conditions}
            in_use = None if shared.volumes is None else shared.volumes.in_use()
            if in_use is not None:
                status["volumesInUse"] = in_use or None
            if shared.devices is not None:
                status["capacity"], status["allocatable"] = shared.devices.amounts()
            patch = {"status": status}
            await client.patch(NODES, "", shared.node.name, patch, subresource="status")
            if in_use is not None and shared.volumes is not None:
                shared.volumes.reported(in_use)
        except (ApiError, LinkBroken) as error:
            shared.error(f"unable to update node status: {error}")
            if isinstance(error, LinkBroken):
                return False
        else:
            _tell_of_pressure(shared, before or ())
            return True
    return False


def _tell_of_pressure(shared: Shared, before: Sequence[Tree]) -> None:
    """An event for each pressure that came or went with this report."""
    name = shared.node.name
    was = {each["type"] for each in before if each["status"] == "True"}
    for kind in node_status.PRESSURES:
        under = kind in shared.under_pressure
        if under != (kind in was):
            reason = node_status.pressure_event(kind, under)
            message = f"Node {name} status is now: {reason}"
            shared.event(node_status.reference(name), "Normal", reason, message)
