"""A kopf operator: its handlers run, its status patches land, its finalizer holds and lets go."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kopf")
pytest.importorskip("kubernetes")

from kubernetes import client, config, watch

HANDLERS = Path(__file__).parent / "operator_handlers.py"
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"word": {"type": "string"}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "tasks.example.dev"},
    "spec": {
        "group": "example.dev",
        "scope": "Namespaced",
        "names": {"plural": "tasks", "singular": "task", "kind": "Task", "listKind": "TaskList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": SCHEMA},
            }
        ],
    },
}


@pytest.fixture
def api(kubeconfig: Path) -> Iterator[Any]:
    with config.new_client_from_config(str(kubeconfig)) as made:
        client.ApiextensionsV1Api(made).create_custom_resource_definition(DEFINITION)
        yield made


@pytest.fixture
def operator(api: Any, kubeconfig: Path, namespace: str, tmp_path: Path) -> Iterator[Path]:
    """The operator's process; what it logs."""
    log = tmp_path / "operator.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "kopf", "run", "--namespace", namespace, str(HANDLERS)],
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            stdout=output,
            stderr=output,
        )
        with process:
            yield log
            process.terminate()
            process.wait(timeout=20)


@pytest.mark.slow
def test_an_operator_works_through_the_life_of_an_object(
    api: Any, operator: Path, namespace: str
) -> None:
    custom, core = client.CustomObjectsApi(api), client.CoreV1Api(api)
    place = ("example.dev", "v1", namespace, "tasks")

    def until(wanted: Callable[[Any], bool], what: str) -> Any:
        stream = watch.Watch()
        for event in stream.stream(
            custom.list_namespaced_custom_object, *place, timeout_seconds=30
        ):
            if wanted(event):
                stream.stop()
                return event["object"]
        raise AssertionError(f"{what}; the operator said:\n{operator.read_text()}")

    custom.create_namespaced_custom_object(
        *place,
        {
            "apiVersion": "example.dev/v1",
            "kind": "Task",
            "metadata": {"name": "t"},
            "spec": {"word": "one"},
        },
    )
    task = until(
        lambda event: "made" in (event["object"].get("status") or {}), "no status after creation"
    )
    assert task["status"]["made"] == {"made": "t-made"}
    assert task["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
    mine = core.read_namespaced_config_map("t-made", namespace)
    assert mine.data == {"word": "one"}
    assert mine.metadata.owner_references[0].uid == task["metadata"]["uid"]
    custom.patch_namespaced_custom_object(*place, "t", {"spec": {"word": "two"}})
    until(
        lambda event: (event["object"].get("status") or {}).get("words") == "one two",
        "no status after the change",
    )
    custom.delete_namespaced_custom_object(*place, "t")
    until(lambda event: event["type"] == "DELETED", "the finalizer was never removed")
    names = [item.metadata.name for item in core.list_namespaced_config_map(namespace).items]
    assert "t-made" not in names
