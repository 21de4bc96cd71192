"""Pods for the tests of the kubelet's decisions."""

from __future__ import annotations

from typing import Any

from controlplane.api.pod import Pod


def resources(cpu: str, memory: str = "1Gi", **more: str) -> dict[str, Any]:
    """The same requests and limits: such containers make a Guaranteed pod."""
    amounts = {"cpu": cpu, "memory": memory, **{k.replace("_", "-"): v for k, v in more.items()}}
    return {"requests": amounts, "limits": amounts}


def guaranteed(
    uid: str, *cpus: str, init: tuple[str, ...] = (), sidecars: tuple[str, ...] = ()
) -> Pod:
    """Containers c0, c1... with so many CPUs, init containers i0..., sidecars s0... before all else."""
    return Pod.from_tree(
        {
            "metadata": {"name": uid, "namespace": "default", "uid": uid},
            "spec": {
                "initContainers": [
                    *(
                        {"name": f"s{i}", "resources": resources(cpu), "restartPolicy": "Always"}
                        for i, cpu in enumerate(sidecars)
                    ),
                    *({"name": f"i{i}", "resources": resources(cpu)} for i, cpu in enumerate(init)),
                ],
                "containers": [
                    {"name": f"c{i}", "resources": resources(cpu)} for i, cpu in enumerate(cpus)
                ],
            },
        }
    )
