"""The official Python client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

kubernetes = pytest.importorskip("kubernetes")

from kubernetes import client, config, watch  # noqa: E402
from kubernetes.client.exceptions import ApiException  # noqa: E402


@pytest.fixture(scope="module")
def api(kubeconfig: Path) -> Iterator[Any]:
    with config.new_client_from_config(str(kubeconfig)) as made:
        yield made


@pytest.fixture
def core(api: Any) -> Any:
    return client.CoreV1Api(api)


def config_map(name: str, **data: str) -> Any:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"a": "b"}), data=data)


def pod(name: str) -> Any:
    container = client.V1Container(name="main", image="busybox")
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name), spec=client.V1PodSpec(containers=[container])
    )


def running(core: Any, namespace: str, name: str) -> Any:
    """Wait, with a watch, until a pod runs."""
    stream = watch.Watch()
    selector = f"metadata.name={name}"
    for event in stream.stream(
        core.list_namespaced_pod, namespace, field_selector=selector, timeout_seconds=60
    ):
        if event["object"].status.phase == "Running":
            stream.stop()
            return event["object"]
    raise AssertionError(f"{name} never ran")


@pytest.mark.slow
def test_life_of_an_object(core: Any, namespace: str) -> None:
    made = core.create_namespaced_config_map(namespace, config_map("c", k="1"))
    assert made.metadata.uid and made.metadata.creation_timestamp.tzinfo is not None
    made.data["k"] = "2"
    put = core.replace_namespaced_config_map("c", namespace, made)
    assert put.data == {"k": "2"}
    with pytest.raises(ApiException) as conflict:
        core.replace_namespaced_config_map("c", namespace, made)
    assert (conflict.value.status, conflict.value.reason) == (409, "Conflict")
    listed = core.list_namespaced_config_map(namespace, label_selector="a=b")
    assert [item.metadata.name for item in listed.items] == ["c"]
    gone = core.delete_namespaced_config_map("c", namespace)
    assert (gone if isinstance(gone, dict) else gone.to_dict())["status"] == "Success"
    with pytest.raises(ApiException) as missing:
        core.read_namespaced_config_map("c", namespace)
    assert missing.value.status == 404
    assert '"reason":"NotFound"' in missing.value.body


def test_kinds_of_patches(core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map("c", k="1", old="x"))
    merged = core.patch_namespaced_config_map("c", namespace, {"data": {"old": None, "new": "y"}})
    assert merged.data == {"k": "1", "new": "y"}
    done = core.patch_namespaced_config_map(
        "c", namespace, [{"op": "replace", "path": "/data/k", "value": "3"}]
    )
    assert done.data["k"] == "3"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "4"}}
    applied = core.patch_namespaced_config_map(
        "c",
        namespace,
        body,
        field_manager="tests",
        force=True,
        _content_type="application/apply-patch+yaml",
    )
    assert applied.data["k"] == "4"
    owners = {entry.manager: entry.operation for entry in applied.metadata.managed_fields}
    assert owners["tests"] == "Apply"


def test_a_watch_goes_on_from_a_version(core: Any, namespace: str) -> None:
    listed = core.list_namespaced_config_map(namespace)
    core.create_namespaced_config_map(namespace, config_map("one"))
    first = watch.Watch()
    for event in first.stream(
        core.list_namespaced_config_map,
        namespace,
        timeout_seconds=30,
        resource_version=listed.metadata.resource_version,
    ):
        if event["object"].metadata.name == "one":
            first.stop()
    core.create_namespaced_config_map(namespace, config_map("two"))
    core.delete_namespaced_config_map("one", namespace)
    again, seen = watch.Watch(), []
    for event in again.stream(
        core.list_namespaced_config_map,
        namespace,
        timeout_seconds=30,
        resource_version=first.resource_version,
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 2:
            again.stop()
    assert seen == [("ADDED", "two"), ("DELETED", "one")]


def test_a_watch_ends_at_its_time_limit(core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map("one"))
    events = list(
        watch.Watch().stream(core.list_namespaced_config_map, namespace, timeout_seconds=1)
    )
    assert "one" in [event["object"].metadata.name for event in events]


def test_a_pod_runs_and_answers_for_its_logs(core: Any, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod("p"))
    found = running(core, namespace, "p")
    assert found.spec.node_name in ("node-1", "node-2")
    assert core.read_namespaced_pod_log("p", namespace) == "container main started\n"
    with pytest.raises(ApiException) as wrong:
        core.read_namespaced_pod_log("p", namespace, container="nope")
    assert wrong.value.status == 400


def test_exec_answers_or_fails_with_an_error_that_the_client_understands(
    core: Any, namespace: str
) -> None:
    from kubernetes.stream import stream

    core.create_namespaced_pod(namespace, pod("p"))
    running(core, namespace, "p")
    enter = core.connect_get_namespaced_pod_exec
    said = stream(
        enter, "p", namespace, command=["echo", "hello"], stdout=True, _preload_content=False
    )
    said.run_forever(timeout=10)
    assert said.read_stdout() == "hello\n"
    said.sock.shutdown()  # close() leaves it open where the other side was first
    with pytest.raises(ApiException) as refused:
        stream(enter, "p", namespace, command=["ls"], stdout=True, container="nope")
    assert "Handshake status 400" in str(refused.value)


def test_custom_resources(api: Any, namespace: str) -> None:
    name = "widgets.example.com"
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}
        },
    }
    client.ApiextensionsV1Api(api).create_custom_resource_definition(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": schema},
                    }
                ],
            },
        }
    )
    custom = client.CustomObjectsApi(api)
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    place = ("example.com", "v1", namespace, "widgets")
    with pytest.raises(ApiException) as invalid:
        custom.create_namespaced_custom_object(*place, {**body, "spec": {"size": 0}})
    assert "spec.size" in invalid.value.body
    made = custom.create_namespaced_custom_object(*place, {**body, "spec": {"size": 2}})
    assert made["spec"] == {"size": 2}
    assert len(custom.list_namespaced_custom_object(*place)["items"]) == 1


def test_one_leader_after_the_other(api: Any, namespace: str) -> None:
    from kubernetes.leaderelection import electionconfig, leaderelection
    from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock

    core = client.CoreV1Api(api)
    led = threading.Event()

    class Over(Exception):
        pass

    class Lock(ConfigMapLock):
        """Ends the election, which otherwise runs for ever, once it is won."""

        def update(self, *arguments: Any) -> Any:
            super().update(*arguments)
            led.wait(10)
            raise Over if led.is_set() else AssertionError("nobody leads")

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.api_instance = core

    chosen = electionconfig.Config(
        Lock("leader", namespace, "me"),
        lease_duration=3,
        renew_deadline=2,
        retry_period=1,
        onstarted_leading=led.set,
        onstopped_leading=None,
    )
    with pytest.raises(Over):
        leaderelection.LeaderElection(chosen).run()
    record = core.read_namespaced_config_map("leader", namespace).metadata.annotations
    assert '"holderIdentity": "me"' in record["control-plane.alpha.kubernetes.io/leader"]
