"""How the controller manager lives: shared informers, and per controller a work queue and some workers.

The loops stand in the modules named `..._actor`. Points: those of `client.informer` and
`controllers.worker`, those that each loop's module names, and one for every request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.client.indexer import Indexer
from controlplane.client.loops.clientset import DEPLOYMENTS, LEASES, NODES, PODS, REPLICA_SETS
from controlplane.client.loops.connection import IN_CLUSTER
from controlplane.client.loops.informer import Informer, handler, together
from controlplane.controllers.loops.base import controller_index, namespace_index
from controlplane.controllers.loops.deployment import DeploymentController
from controlplane.controllers.loops.node_lifecycle import NodeController
from controlplane.controllers.loops.replicaset import ReplicaSetController
from controlplane.controllers.loops.taint_eviction import TaintEvictionController

if TYPE_CHECKING:
    from actors import Context
    from controlplane.api.apps import Deployment, ReplicaSet
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.client.loops.connection import RestConfig

WORKERS = 5


def _node_index(obj: Object[Pod]) -> tuple[str, ...]:
    """Index pods by the node they are bound to."""
    pod = obj.view
    return (pod.spec.node_name,) if pod.spec.node_name else ()


async def run(
    ctx: Context,
    epoch_ns: int,
    *,
    server: RestConfig = IN_CLUSTER,
    workers: int = WORKERS,
    monitor_nodes: bool = True,
    joined_informers: bool = False,
) -> None:
    """Main task of the controller manager.

    Without `monitor_nodes` nobody minds that nodes fall silent (a trace has no heartbeats), but
    their taints still follow their conditions. `joined_informers` makes each informer one task.
    """
    joined = joined_informers
    pods = Informer(
        ctx,
        PODS,
        Indexer(controller=controller_index, node=_node_index),
        server=server,
        immediate=joined,
    )
    by_controller: Indexer[ReplicaSet] = Indexer(
        controller=controller_index, namespace=namespace_index
    )
    sets = Informer(
        ctx,
        REPLICA_SETS,
        by_controller,
        server=server,
        immediate=joined,
    )
    by_namespace: Indexer[Deployment] = Indexer(namespace=namespace_index)
    wanted = Informer(ctx, DEPLOYMENTS, by_namespace, server=server, immediate=joined)
    nodes = Informer(ctx, NODES, server=server, immediate=joined)
    leases = Informer(ctx, LEASES, server=server, immediate=joined) if monitor_nodes else None

    replica_set = ReplicaSetController(ctx, epoch_ns, server, pods.store, sets.store)
    deployment = DeploymentController(ctx, epoch_ns, server, pods.store, sets.store, wanted.store)
    heard = leases.store if leases is not None else None
    node = NodeController(ctx, epoch_ns, server, nodes.store, pods.store, heard)
    eviction = TaintEvictionController(ctx, epoch_ns, server, nodes.store, pods.store)

    # The controllers only note keys when they hear of something, so they share a listener per resource;
    # their workers interleave freely.
    of_pods = [replica_set.pod_handlers(), deployment.pod_handlers(), eviction.pod_handlers()]
    if leases is not None:
        of_pods.append(node.pod_handlers())
    of_sets = [replica_set.set_handlers(), deployment.set_handlers()]
    of_nodes = [node.node_handlers(), eviction.node_handlers()]
    pods.add_handler(together(*(handler(*each) for each in of_pods)), "controllers")
    sets.add_handler(together(*(handler(*each) for each in of_sets)), "controllers")
    wanted.add_handler(handler(*deployment.deployment_handlers()), "controllers")
    nodes.add_handler(together(*(handler(*each) for each in of_nodes)), "controllers")

    informers: list[Informer[Any]] = [pods, sets, wanted, nodes]
    if leases is not None:
        informers.append(leases)
    for informer in informers:
        informer.start()
    for informer in informers:
        await informer.wait_synced()
    replica_set.workers.start(workers)
    deployment.workers.start(workers)
    node.start()
    eviction.start()
