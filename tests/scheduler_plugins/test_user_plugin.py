"""A plugin of a user with custom kinds and handlers of its own."""

from __future__ import annotations

from typing import Any, ClassVar

from actors import Context
from controlplane.client.loops.clientset import PODS, Client
from controlplane.client.resources import Resource
from controlplane.scenarios.authoring.worlds import with_plugins
from controlplane.scheduler.framework import (
    CustomKind,
    EnqueueExtensions,
    FilterPlugin,
    PodHandler,
    unschedulable,
)
from controlplane.scheduler.framework import events as ev
from tests.test_cluster import SECOND, cluster_with, plain_pod, pods, run

WIDGET = CustomKind("Widget", Resource("example.com", "v1", "widgets"))


class NeedsWidget(FilterPlugin, EnqueueExtensions, PodHandler):
    """Refuses pods while there is no Widget of their name."""

    name = "NeedsWidget"
    custom = (WIDGET,)
    heard: ClassVar[list[str]] = []

    def __init__(self, args: Any, handle: Any) -> None:
        self._handle = handle

    def pod_added(self, pod):
        self.heard.append(pod.name)

    def filter(self, state, pod, node):
        if self._handle.custom.get("Widget", pod.namespace, pod.name) is None:
            return unschedulable("no widget")
        return None

    def events_to_register(self):
        return [ev.ClusterEventWithHint(ev.ClusterEvent(WIDGET.event, ev.ADD))]


def definition() -> dict:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }


def test_it_reads_them_and_their_events_wake_its_pods_also_when_defined_later():
    definitions: Resource = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(PODS, plain_pod("one"))
        await ctx.sleep(5 * SECOND)
        await client.create(definitions, definition())
        await ctx.sleep(60 * SECOND)
        seen.append(pods(cluster)[0].spec.node_name)
        widget = {"apiVersion": "example.com/v1", "kind": "Widget"}
        metadata = {"name": "one", "namespace": "default"}
        await client.create(WIDGET.resource, {**widget, "metadata": metadata})

    seen: list[str] = []
    NeedsWidget.heard = []
    cluster = cluster_with(user, **with_plugins(NeedsWidget))
    run(cluster)
    assert seen == [""]
    assert pods(cluster)[0].spec.node_name
    assert NeedsWidget.heard == ["one"]
