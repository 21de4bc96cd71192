"""A plugin looks up what it declares, and nothing else: interleavings rest on the declarations."""

from __future__ import annotations

from collections import defaultdict

import pytest

from controlplane.apiserver.requests.admission.chain import PLUGINS, Admission
from controlplane.apiserver.requests.looked_up import ALLOCATING, LOOKED_UP
from controlplane.apiserver.requests.lookup import StoreLookup
from tests.apiserver.world import World, pod

CLASS = {"apiVersion": "storage.k8s.io/v1", "provisioner": "p", "allowVolumeExpansion": True}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "claim"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
    },
}


@pytest.fixture
def looked_up(monkeypatch):
    """Resources that each plugin has looked up, by its name; but for requests to write what meets every write."""
    found: dict[str, set[str]] = defaultdict(set)
    running: list[str] = []

    def noting(name, method):
        def call(lookup, group, resource, *place):
            if running and name != "info":
                found[running[-1]].add(resource)
            return method(lookup, group, resource, *place)

        return call

    def wrapped(call, name):
        def run(ctx, *args, **more):
            if ctx.info.resource in LOOKED_UP:
                return call(ctx, *args, **more)
            running.append(name)
            try:
                return call(ctx, *args, **more)
            finally:
                running.pop()

        return run

    names = {plugin.call: plugin.name for plugin in PLUGINS}
    for method in ("get", "all", "within"):
        monkeypatch.setattr(StoreLookup, method, noting(method, getattr(StoreLookup, method)))
    for method in ("_bound", "_checking"):
        original = getattr(Admission, method)

        def bind(self, call, original=original):
            return wrapped(original(self, call), names[call])

        monkeypatch.setattr(Admission, method, bind)
    quotas = Admission.quotas
    monkeypatch.setattr(
        Admission,
        "quotas",
        lambda self, ctx, old: wrapped(lambda ctx: quotas(self, ctx, old), "ResourceQuota")(ctx),
    )
    return found


def of_kind(kind, version, name, **fields):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def test_every_plugin_looks_up_what_it_declares(looked_up) -> None:
    world = World(disabled=(), gates=frozenset(("GenericWorkload",)))
    make = world.create
    make("namespaces", of_kind("Namespace", "v1", "default"), namespace="")
    make("serviceaccounts", of_kind("ServiceAccount", "v1", "default"))
    made = of_kind("PriorityClass", "scheduling.k8s.io/v1", "high", value=5)
    make("priorityclasses", made, group="scheduling.k8s.io", namespace="")
    made = of_kind("RuntimeClass", "node.k8s.io/v1", "sandbox", handler="h")
    make("runtimeclasses", made, group="node.k8s.io", namespace="")
    made = {**CLASS, "kind": "StorageClass", "metadata": {"name": "fast"}}
    make("storageclasses", made, group="storage.k8s.io", namespace="")
    created = pod("p")
    created["spec"] |= {"priorityClassName": "high", "runtimeClassName": "sandbox"}
    assert make("pods", created).code == 201
    bare = {key: each for key, each in CLAIM["spec"].items() if key != "storageClassName"}
    assert make("persistentvolumeclaims", {**CLAIM, "spec": bare}).code == 201
    claim = {**CLAIM, "metadata": {"name": "other"}}
    assert make("persistentvolumeclaims", claim).code == 201
    stored = world.get("persistentvolumeclaims", "other").tree
    bound = {**stored, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    world.do("update", "persistentvolumeclaims", "other", bound, sub="status")
    larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    assert world.patch("persistentvolumeclaims", "other", larger).code == 200
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    ingress = of_kind("Ingress", "networking.k8s.io/v1", "i", spec={"defaultBackend": backend})
    assert make("ingresses", ingress, group="networking.k8s.io").code == 201
    assert make("nodes", of_kind("Node", "v1", "n"), namespace="").code == 201
    template = {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
    group = {"schedulingPolicy": {"basic": {}}, "podGroupTemplateRef": template}
    made = of_kind("PodGroup", "scheduling.k8s.io/v1alpha2", "g", spec=group)
    where = {"group": "scheduling.k8s.io", "version": "v1alpha2"}
    assert make("podgroups", made, **where).code == 403
    body = {**created["spec"], "restartPolicy": "Never"}
    job = of_kind("Job", "batch/v1", "j", spec={"parallelism": 1, "template": {"spec": body}})
    assert make("jobs", job, group="batch").code == 201
    assert world.patch("jobs", "j", {"spec": {"parallelism": 2}}, group="batch").code == 200
    declared: dict[str, set[str]] = defaultdict(set)
    for plugin in PLUGINS:
        if plugin.resources is None or not plugin.resources <= LOOKED_UP:
            declared[plugin.name] |= {*plugin.looks_up}
    assert {name: each for name, each in looked_up.items() if each} == {
        name: each for name, each in declared.items() if each
    }


def test_kinds_that_allocate_are_known() -> None:
    registries = World().server.registries
    table = World().server.table
    allocating = {info.resource for info in table if registries.of(info).strategy.allocates}
    assert allocating == {*ALLOCATING}
