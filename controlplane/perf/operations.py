"""The operations of a workload, carried out by an actor that uses the cluster from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors import LinkBroken
from controlplane.api import identity
from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import NAMESPACES, NODES, PODS, Client, Resource
from controlplane.errors import UsageError
from controlplane.perf import devices
from controlplane.perf.measuring import Collection
from controlplane.perf.watching import SCHEDULED, Ticker, Watching

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors import Context, Event, Task
    from controlplane.api.object import Object
    from controlplane.perf.measuring import Switch
    from controlplane.perf.templates import Template
    from controlplane.perf.workloads import Operation, Workload

DEFAULT_CHURN_MS = 500
NAME_TRIES = 5
VOLUMES = Resource("", "v1", "persistentvolumes")
CLAIMS = Resource("", "v1", "persistentvolumeclaims")
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes")
HOSTNAME = "kubernetes.io/hostname"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
DEFAULT_NODE: Tree = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"generateName": "scheduler-perf-"},
    "spec": {},
    "status": {
        "capacity": {"pods": "110", "cpu": "4", "memory": "32Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
DEFAULT_POD: Tree = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "pod-"},
    "spec": {
        "containers": [
            {
                "name": "pause",
                "image": "registry.k8s.io/pause:3.10.1",
                "ports": [{"containerPort": 80}],
                "resources": {
                    "limits": {"cpu": "100m", "memory": "500Mi"},
                    "requests": {"cpu": "100m", "memory": "500Mi"},
                },
            }
        ]
    },
}


class Outcome:
    """The result of a workload."""

    def __init__(self) -> None:
        self.collections: list[Collection] = []
        self.finished = False
        self.failed = ""
        self.doing = ""


class Executor:
    """Carries out the operations of one workload, one after the other; some go on in the background."""

    def __init__(
        self,
        workload: Workload,
        kinds: Callable[[str, str], tuple[Resource, bool] | None],
        outcome: Outcome,
        switch: Switch,
        stop: Callable[[], None],
    ) -> None:
        self._workload = workload
        self._kinds = kinds
        self._outcome = outcome
        self._switch = switch
        self._stop = stop
        self._namespaces: dict[str, None] = {}
        self._waited_for: dict[str, int] = {}
        """Pods created without waiting for them, by namespace."""
        self._background: list[Task] = []

    async def run(self, ctx: Context) -> None:
        """Main task of the actor. Ends the world's run when all is done, or when something failed."""
        self._ctx = ctx
        self._client = Client(ctx)
        self._watching = Watching(ctx)
        await self._watching.start()
        try:
            for number, operation in enumerate(self._workload.operations):
                self._outcome.doing = f"operation {number + 1}, {operation.opcode}"
                await self._perform(operation, number)
            self._outcome.finished = True
        except (ApiError, LinkBroken, UsageError) as error:
            self._outcome.failed = f"{self._outcome.doing}: {' '.join(str(error).split())}"
        self._stop_collecting()
        for task in self._background:
            ctx.cancel(task)
        self._stop()

    async def _perform(self, operation: Operation, number: int) -> None:
        match operation.opcode:
            case "createNodes":
                await self._create_nodes(operation)
            case "createNamespaces":
                await self._create_namespaces(operation)
            case "createPods":
                await self._create_pods(operation, number)
            case "createPodSets":
                for at in range(operation.count):
                    namespace = f"{operation.get('namespacePrefix')}-{at}"
                    inner: Operation = operation.get("createPodsOp")
                    await self._create_pods(inner, number, namespace)
            case "createAny" | "createResourceClaims":
                await self._create_any(operation)
            case "createResourceDriver":
                await devices.create_driver(self._ctx, self._client, operation)
            case "allocResourceClaims":
                features = self._workload.features
                await devices.allocate_claims(self._ctx, self._client, operation, features)
            case "updateAny":
                await self._update_any(operation)
            case "deletePods":
                await self._delete_pods(operation)
            case "churn":
                await self._churn(operation, number)
            case "barrier":
                await self._barrier(operation)
            case "sleep":
                await self._ctx.sleep(operation.get("duration", 0), point="benchmark.sleep")
            case "startCollectingMetrics":
                selects = _selector(operation.get("labelSelector"))
                name = operation.get("name") or f"{operation.opcode}-{number}"
                self._start_collecting(name, operation.get("namespaces"), selects)
            case "stopCollectingMetrics":
                self._stop_collecting()

    # ------------------------------------------------------------------ nodes and namespaces

    async def _create_nodes(self, operation: Operation) -> None:
        template = operation.template("nodeTemplatePath")
        count = operation.count
        allocatable = operation.get("nodeAllocatableStrategy") or {}
        for index in range(count):
            tree = DEFAULT_NODE if template is None else template.tree(index, count)
            node = await self._create_node(tree, operation, index)
            drivers = allocatable.get("csiNodeAllocatable")
            if drivers:
                await self._client.create(CSI_NODES, _csi_node(node, drivers, allocatable))

    async def _create_node(self, tree: Tree, operation: Operation, index: int) -> Object:
        """Create a node under its own name, or a generated one that is not taken."""
        for tries_left in reversed(range(NAME_TRIES)):
            made = _prepared(tree, operation, index, identity.suffix(self._ctx.serial()))
            try:
                return await self._client.create(NODES, made)
            except ApiError as error:
                if error.code != 409 or not tries_left:
                    raise
        raise AssertionError

    async def _create_namespaces(self, operation: Operation) -> None:
        template = operation.template("namespaceTemplatePath")
        for index in range(operation.count):
            tree = {} if template is None else template.tree(index, operation.count)
            await self._namespace(f"{operation.get('prefix')}-{index}", tree)

    async def _namespace(self, name: str, tree: Tree | None = None) -> None:
        if name in self._namespaces:
            return
        self._namespaces[name] = None
        metadata = {**((tree or {}).get("metadata") or {}), "name": name}
        made = {"apiVersion": "v1", "kind": "Namespace", **(tree or {}), "metadata": metadata}
        try:
            await self._client.create(NAMESPACES, made)
        except ApiError as error:
            if error.code != 409:
                raise

    # ------------------------------------------------------------------ pods

    async def _create_pods(
        self, operation: Operation, number: int, namespace: str | None = None
    ) -> None:
        name = namespace or operation.get("namespace") or f"namespace-{number}"
        await self._namespace(name)
        if operation.get("collectMetrics"):
            self._start_collecting(name, [name], None)
        count = operation.count
        make = self._pod_maker(operation, name)
        for index in range(count):
            await make(index)
            self._watching.poll()
        if operation.get("skipWaitToCompletion"):
            self._waited_for[name] = self._waited_for.get(name, 0) + count
            return
        await self._watching.until(name, count, SCHEDULED)
        if operation.get("steadyState"):
            await self._steady(operation, name, make)
        if operation.get("collectMetrics"):
            self._stop_collecting()

    def _pod_maker(self, operation: Operation, namespace: str) -> Callable[[int], Any]:
        """Creates pod number i, with a volume of its own when the operation wants that."""
        template = operation.template("podTemplatePath")
        volume = operation.template("persistentVolumeTemplatePath")
        claim = operation.template("persistentVolumeClaimTemplatePath")
        count = operation.count
        client = self._client

        async def plain(index: int) -> None:
            tree = DEFAULT_POD if template is None else template.tree(index, count)
            await client.create(PODS, tree, namespace)

        async def with_volume(index: int) -> None:
            assert volume is not None and claim is not None
            await self._bound_volume(volume, claim, namespace, index, count)
            tree = DEFAULT_POD if template is None else template.tree(index, count)
            source = {"persistentVolumeClaim": {"claimName": f"pvc-{index}"}}
            spec = {**tree["spec"], "volumes": [{"name": "vol", **source}]}
            await client.create(PODS, {**tree, "spec": spec}, namespace)

        return plain if volume is None or claim is None else with_volume

    async def _bound_volume(
        self, volume: Template, claim: Template, namespace: str, index: int, count: int
    ) -> None:
        """A volume and a claim that are bound to each other, as if a controller had done it."""
        client = self._client
        name, claim_name = f"{namespace}-pv-{index}", f"pvc-{index}"
        tree = volume.tree(index, count)
        ref = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": namespace,
            "name": claim_name,
        }
        made = _named(tree, name)
        spec = {**made["spec"], "claimRef": ref}
        for source, handle in (("csi", "volumeHandle"), ("awsElasticBlockStore", "volumeID")):
            if source in spec:
                spec[source] = {**spec[source], handle: name}
        made = {**made, "spec": spec}
        pv = await client.create(VOLUMES, made)
        wanted = _named(claim.tree(index, count), claim_name)
        wanted = {**wanted, "spec": {**wanted["spec"], "volumeName": name}}
        pvc = await client.create(CLAIMS, wanted, namespace)
        bound = {"phase": "Bound"}
        await client.update(CLAIMS, {**pvc.tree, "status": bound}, "status")
        await client.update(VOLUMES, {**pv.tree, "status": bound}, "status")

    async def _steady(self, operation: Operation, namespace: str, make: Any) -> None:
        """Replace pods one after the other for a time, each by a new one once it is scheduled."""
        count = operation.count
        over = self._ctx.event()
        ticker = self._watching.ticker(self._ctx, operation.get("duration", 0))
        self._background.append(self._ctx.spawn(_after_tick, ticker, over, name="steady"))
        number = count
        while not over.is_set():
            for pod in self._watching.pods(namespace)[:count]:
                await self._client.delete(PODS, namespace, pod.name, grace_period_seconds=0)
                await make(number)
                number += 1
            await self._watching.until(namespace, count, SCHEDULED)

    async def _delete_pods(self, operation: Operation) -> None:
        namespace = operation.get("namespace")
        selects = _selector(operation.get("labelSelector"))
        doomed = [
            pod.name for pod in self._watching.pods(namespace) if selects is None or selects(pod)
        ]
        rate = operation.get("deletePodsPerSecond", 0)
        if operation.get("skipWaitToCompletion"):
            task = self._ctx.spawn(self._delete, namespace, doomed, rate, name="delete")
            self._background.append(task)
        else:
            await self._delete(self._ctx, namespace, doomed, rate)

    async def _delete(self, ctx: Context, namespace: str, names: list[str], rate: int) -> None:
        client = Client(ctx)
        ticker = self._watching.ticker(ctx, SECOND // rate) if rate else None
        for name in names:
            if ticker is not None:
                await ticker.tick()
            try:
                await client.delete(PODS, namespace, name)
            except ApiError as error:
                if error.code != 404:
                    raise

    # ------------------------------------------------------------------ anything

    def _kind(self, tree: Tree, namespace: str | None) -> Resource:
        found = self._kinds(tree["apiVersion"], tree["kind"])
        if found is None:
            raise UsageError(f"no kind {tree['kind']!r} is served in {tree['apiVersion']!r}")
        resource, namespaced = found
        if namespaced != bool(namespace):
            what = "needs a namespace" if namespaced else "has no namespace"
            raise UsageError(f"{tree['kind']} {what}")
        return resource

    async def _create_any(self, operation: Operation) -> None:
        template = operation.template("templatePath")
        assert template is not None
        namespace = operation.get("namespace")
        if namespace:
            await self._namespace(namespace)
        for index in range(operation.count):
            tree = template.tree(index, operation.count)
            await self._client.create(self._kind(tree, namespace), tree, namespace or "")

    async def _update_any(self, operation: Operation) -> None:
        """Replace objects by what the template says, and their status as well."""
        template = operation.template("templatePath")
        assert template is not None
        namespace, count = operation.get("namespace"), operation.count
        rate = operation.get("updatePerSecond", 0)
        ticker = self._watching.ticker(self._ctx, SECOND // rate) if rate else None
        for index in range(count):
            if ticker is not None:
                await ticker.tick()
            tree = template.tree(index, count)
            resource = self._kind(tree, namespace)
            if namespace:
                tree = {**tree, "metadata": {**tree["metadata"], "namespace": namespace}}
            subresource = next(iter(operation.get("subresources") or ()), "")
            await self._client.update(resource, tree, subresource)
            await self._client.update(resource, tree, "status")

    async def _churn(self, operation: Operation, number: int) -> None:
        namespace = operation.get("namespace") or f"namespace-{number}"
        await self._namespace(namespace)
        found = operation.templates["templatePaths"]
        assert isinstance(found, tuple)
        targets: list[tuple[Template, Resource, str]] = []
        for template in found:
            tree = template.tree()
            known = self._kinds(tree["apiVersion"], tree["kind"])
            if known is None:
                raise UsageError(f"no kind {tree['kind']!r} is served in {tree['apiVersion']!r}")
            targets.append((template, known[0], namespace if known[1] else ""))
        interval = operation.get("intervalMilliseconds") or DEFAULT_CHURN_MS
        task = self._ctx.spawn(
            self._churn_forever,
            targets,
            operation.get("mode", "create"),
            operation.get("number", 0),
            interval * 1_000_000,
            name="churn",
        )
        self._background.append(task)

    async def _churn_forever(
        self,
        ctx: Context,
        targets: list[tuple[Template, Resource, str]],
        mode: str,
        number: int,
        interval: int,
    ) -> None:
        """Create objects; or create and delete them in turn, `number` of each kind at most."""
        client = Client(ctx)
        ticker = self._watching.ticker(ctx, interval)
        names: list[dict[int, str]] = [{} for _ in targets]
        count = 0
        while mode == "recreate" or not number or count < number:
            await ticker.tick()
            slot = count % number if mode == "recreate" and number else count
            for at, (template, resource, namespace) in enumerate(targets):
                known = names[at].pop(slot, "")
                try:
                    if known:
                        await client.delete(resource, namespace, known)
                    else:
                        made = await client.create(resource, template.tree(count, 1), namespace)
                        if mode == "recreate":
                            names[at][slot] = made.name
                except ApiError as error:
                    ctx.log("benchmark.churn", data={"message": str(error)})
            count += 1

    # ------------------------------------------------------------------ waiting and measuring

    async def _barrier(self, operation: Operation) -> None:
        stage = operation.get("stageRequirement") or SCHEDULED
        selects = _selector(operation.get("labelSelector"))
        for namespace in operation.get("namespaces") or list(self._waited_for):
            want = self._waited_for.get(namespace)
            if want is None:
                raise UsageError(f"no pods were created in namespace {namespace!r} without waiting")
            await self._watching.until(namespace, want, stage, selects)
            if stage == SCHEDULED:
                del self._waited_for[namespace]

    def _start_collecting(
        self, name: str, namespaces: list[str], selects: Callable[[Object], bool] | None
    ) -> None:
        self._stop_collecting()
        collection = Collection(name, namespaces, selects)
        self._outcome.collections.append(collection)
        self._watching.collection = collection
        self._switch.target = collection

    def _stop_collecting(self) -> None:
        collection = self._watching.collection
        if collection is not None:
            collection.stop()
            self._watching.collection = None
            self._switch.reset()


async def _after_tick(_ctx: Context, ticker: Ticker, event: Event) -> None:
    """Set an event after one interval."""
    await ticker.tick()
    event.set()


def _selector(labels: Mapping[str, str] | None) -> Callable[[Object], bool] | None:
    """Pods that carry all these labels."""
    if not labels:
        return None
    wanted = dict(labels)

    def selects(obj: Object) -> bool:
        found = obj.metadata.get("labels") or {}
        return all(found.get(key) == value for key, value in wanted.items())

    return selects


def _named(tree: Tree, name: str) -> Tree:
    return {**tree, "metadata": {**(tree.get("metadata") or {}), "name": name}}


def _prepared(tree: Tree, operation: Operation, index: int, suffix: str) -> Tree:
    """A node with its name as host name, and the labels and room for volumes that the operation wants."""
    metadata = tree["metadata"]
    name = metadata.get("name") or metadata["generateName"] + suffix
    labels: Tree = {**(metadata.get("labels") or {}), HOSTNAME: name}
    by_value = operation.get("labelNodePrepareStrategy")
    if by_value:
        values = by_value.get("labelValues") or []
        if values:
            labels[by_value["labelKey"]] = values[index % len(values)]
    unique = operation.get("uniqueNodeLabelStrategy")
    if unique:
        labels[unique["labelKey"]] = f"{name}-{index}"
    tree = {**tree, "metadata": {**metadata, "name": name, "labels": labels}}
    extra = (operation.get("nodeAllocatableStrategy") or {}).get("nodeAllocatable")
    if extra:
        status = tree.get("status") or {}
        room = {**(status.get("allocatable") or status.get("capacity") or {}), **extra}
        tree = {**tree, "status": {**status, "allocatable": room}}
    return tree


def _csi_node(node: Object, drivers: Mapping[str, Tree], strategy: Mapping[str, Any]) -> Tree:
    """The data that a node's CSI drivers would have published."""
    metadata: Tree = {"name": node.name}
    migrated = strategy.get("migratedPlugins")
    if migrated:
        metadata["annotations"] = {MIGRATED: ",".join(migrated)}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": metadata,
        "spec": {
            "drivers": [
                {
                    "name": name,
                    "nodeID": node.name,
                    "topologyKeys": None,
                    "allocatable": dict(room),
                }
                for name, room in drivers.items()
            ]
        },
    }
