"""The store: creates that are durable one by one or in groups, reading them back, and what a pod costs at rest."""

from __future__ import annotations

import gc
import json
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.harness import Row, rate
from controlplane.api import identity, json_text
from controlplane.api.request import STRATEGIC_MERGE_PATCH, Request
from controlplane.apiserver.options import ServerOptions
from controlplane.apiserver.requests.server import ApiServer
from controlplane.apiserver.storage.durable_store import DurableStore
from controlplane.apiserver.storage.store import Store
from controlplane.cluster import DISABLED_ADMISSION
from controlplane.cluster_config import EPOCH_NS
from controlplane.scenarios.authoring.workloads import pod

COUNT = 3000
READ_BACK = 20_000
RESTING = 2000


def _create(store: Store, count: int, every: int) -> int:
    """Create pods, committing after `every` of them."""
    serials = iter(range(1, 1 << 30))
    server = ApiServer(
        store,
        uid=lambda: identity.uid(next(serials)),
        suffix=lambda: identity.suffix(next(serials)),
        options=ServerOptions(disabled=DISABLED_ADMISSION),
    )
    server.bootstrap(EPOCH_NS)
    for number in range(count):
        body = pod(f"pod-{number}", "100m")
        answer = server.handle(
            Request("create", resource="pods", namespace="default", body=body), EPOCH_NS
        )
        assert answer.ok
        if number % every == 0:
            store.commit()
    store.close()
    return count


def _into_a_file(grouped: bool, every: int) -> Callable[[], int]:
    def work() -> int:
        with tempfile.TemporaryDirectory() as folder:
            store = DurableStore.open(Path(folder, "store.db"), grouped=grouped)
            return _create(store, COUNT, every)

    return work


def _life(server: ApiServer, number: int) -> None:
    """A pod of a ReplicaSet from its creation to Running, as its controller, scheduler and kubelet write it."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web-5d9e7b6c4",
        "controller": True,
        "blockOwnerDeletion": True,
        "uid": "11111111-2222-4333-8444-555555555555",
    }
    container = {
        "name": "main",
        "image": "registry.example.com/app:1.2.3",
        "ports": [{"containerPort": 8080, "name": "http"}],
        "env": [{"name": "A", "value": "b"}, {"name": "C", "value": "d"}],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "256Mi"},
        },
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
    }
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "web-5d9e7b6c4-",
            "labels": {"app": "web", "pod-template-hash": "5d9e7b6c4"},
            "ownerReferences": [owner],
        },
        "spec": {"containers": [container]},
    }
    asked = Request("create", resource="pods", namespace="default", body=made, user_agent="rs")
    name = server.handle(asked, EPOCH_NS).tree["metadata"]["name"]
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": f"node-{number % 100}"},
    }
    assert server.handle(
        Request(
            "create",
            resource="pods",
            namespace="default",
            name=name,
            subresource="binding",
            body=binding,
            user_agent="scheduler",
        ),
        EPOCH_NS,
    ).ok
    then = f"2025-01-01T00:00:0{number % 10}Z"
    address = f"10.1.{number // 250}.{number % 250}"
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    state = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": then,
        "hostIP": f"10.0.{number % 100}.1",
        "conditions": [
            {"type": each, "status": "True", "lastTransitionTime": then} for each in types
        ],
        "containerStatuses": [
            {
                "name": "main",
                "state": {"running": {"startedAt": then}},
                "ready": True,
                "restartCount": 0,
                "image": "registry.example.com/app:1.2.3",
                "imageID": "registry.example.com/app@sha256:0",
                "containerID": f"containerd://{number:064x}",
                "started": True,
            }
        ],
    }
    assert server.handle(
        Request(
            "patch",
            resource="pods",
            namespace="default",
            name=name,
            subresource="status",
            raw=json.dumps({"status": state}).encode(),
            content_type=STRATEGIC_MERGE_PATCH,
            user_agent="kubelet",
        ),
        EPOCH_NS,
    ).ok


def at_rest(served: bool) -> Iterator[Row]:
    """Bytes of a pod in the store once history is forgotten, and of its JSON; no cache of a component counts."""
    serials = iter(range(1, 1 << 30))
    options = (
        ServerOptions(track_fields=True) if served else ServerOptions(disabled=DISABLED_ADMISSION)
    )
    server = ApiServer(
        uid=lambda: identity.uid(next(serials)),
        suffix=lambda: identity.suffix(next(serials)),
        options=options,
    )
    server.bootstrap(EPOCH_NS)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    server.handle(
        Request("create", resource="serviceaccounts", namespace="default", body=account), EPOCH_NS
    )
    for number in range(RESTING // 10):  # what is remembered of any
        _life(server, number)
    server.store.compact(server.store.revision)
    gc.collect()
    tracemalloc.start(1)
    for number in range(RESTING):
        _life(server, number)
    gc.collect()
    whole = tracemalloc.get_traced_memory()[0] / RESTING
    server.store.compact(server.store.revision)
    gc.collect()
    rest = tracemalloc.get_traced_memory()[0] / RESTING
    tracemalloc.stop()
    entries = server.store.keyspaces["/registry/pods/"].entries.values()
    content = sum(len(json_text.compact(entry.object.tree)) for entry in entries) / len(entries)
    name = "served, with field ownership and tokens" if served else "as a run has it"
    yield Row(f"pod at rest, {name}: as JSON", "bytes", (content,))
    yield Row(f"pod at rest, {name}: in memory", "bytes", (rest,))
    yield Row(f"pod at rest, {name}: with history", "bytes", (whole,))


def rows(repeat: int) -> Iterator[Row]:
    yield rate(
        "pod create, store in memory", "creates/s", repeat, lambda: _create(Store(), COUNT, 1)
    )
    yield rate("pod create, store in a file", "creates/s", repeat, _into_a_file(False, 1))
    yield rate("pod create, file, 8 to a commit", "creates/s", repeat, _into_a_file(True, 8))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store.db")
        _create(DurableStore.open(path, grouped=True), READ_BACK, READ_BACK)

        def reopen() -> int:
            store = DurableStore.open(path)
            store.close()
            return READ_BACK

        yield rate("store read back from its file", "objects/s", repeat, reopen)
    for served in (False, True):
        yield from at_rest(served)
