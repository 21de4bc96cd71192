"""What kr8s does with a control plane. A program of its own: kr8s leaves its connections to the process's end."""

from __future__ import annotations

import sys
import traceback
import warnings
from typing import Any

import kr8s
from kr8s.objects import ConfigMap, Deployment, Pod, new_class


def version_and_discovery(api: Any, _: str) -> None:
    assert api.version()["gitVersion"] == "v1.36.2"
    kinds = {entry["kind"] for entry in api.api_resources()}
    assert {"Pod", "Deployment", "Lease", "CustomResourceDefinition"} <= kinds


def life_of_an_object(api: Any, namespace: str) -> None:
    made = ConfigMap(
        {"metadata": {"name": "c", "namespace": namespace}, "data": {"k": "1"}}, api=api
    )
    made.create()
    assert made.exists()
    made.patch({"data": {"k": "2"}})
    assert [item.data.k for item in api.get("configmaps", "c")] == ["2"]
    made.label({"a": "b"})
    assert [item.name for item in api.get("configmaps", label_selector={"a": "b"})] == ["c"]
    made.annotate({"n": "1"})
    made.refresh()
    assert made.annotations["n"] == "1"
    made.delete()
    assert not made.exists()


def a_deployment_scales_and_its_pods_are_found(api: Any, namespace: str) -> None:
    made = Deployment(
        {
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            },
        },
        api=api,
    )
    made.create()
    made.wait("condition=Available", timeout=30)
    made.scale(2)
    made.wait("jsonpath='{.status.readyReplicas}'=2", timeout=30)
    assert len(made.pods()) == 2


def pods_are_watched_and_give_logs(api: Any, namespace: str) -> None:
    pod = Pod(Pod.gen(name="p", image="busybox", namespace=namespace).raw, api=api)
    pod.create()
    for _, seen in api.watch("pods", field_selector="metadata.name=p"):
        if seen.status.get("phase") == "Running":
            break
    pod.wait("condition=Ready", timeout=30)
    assert next(iter(pod.logs())).startswith("container ")


def a_kind_of_ones_own(api: Any, namespace: str) -> None:
    kind = new_class(kind="Thing", version="example.net/v1", namespaced=True, plural="things")
    definition = new_class(
        kind="CustomResourceDefinition", version="apiextensions.k8s.io/v1", namespaced=False
    )
    definition(
        {
            "metadata": {"name": "things.example.net"},
            "spec": {
                "group": "example.net",
                "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "properties": {
                                    "spec": {
                                        "type": "object",
                                        "properties": {"n": {"type": "integer", "default": 7}},
                                    }
                                },
                            }
                        },
                    }
                ],
            },
        },
        api=api,
    ).create()
    thing = kind({"metadata": {"name": "t", "namespace": namespace}, "spec": {}}, api=api)
    thing.create()
    assert thing.raw["spec"]["n"] == 7


SCENARIOS = (
    version_and_discovery,
    life_of_an_object,
    a_deployment_scales_and_its_pods_are_found,
    pods_are_watched_and_give_logs,
    a_kind_of_ones_own,
)


def main(kubeconfig: str, namespace: str) -> None:
    """Every scenario, one line each: its name, and where it failed."""
    warnings.filterwarnings("ignore", message="Kubernetes version .* is not supported")
    api = kr8s.api(kubeconfig=kubeconfig, namespace=namespace)
    for scenario in SCENARIOS:
        try:
            scenario(api, namespace)
        except Exception:
            print(scenario.__name__, repr(traceback.format_exc()), flush=True)
        else:
            print(scenario.__name__, "ok", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
