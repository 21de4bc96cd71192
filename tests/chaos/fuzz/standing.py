"""Objects whose subresources few conversations reach, and requests that succeed there.

Status, approval and scale of kinds that controllers look after, and what leads into a running container.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from random import Random
from typing import Any

Json = Any
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
_CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_REQUEST = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIWU1JR0FBZ0VBTUI0eERUQUxCZ05WQkFNTUJHcGhibVV4RFRB"
    "TEJnTlZCQW9NQkdaMWVub3dXVEFUQmdjcQpoa2pPUFFJQkJnZ3Foa2pPUFFNQkJ3TkNBQVNyVGRiOE01a2F1bDcyVUhxREk4c1Fl"
    "YWVIUkUwZVA3WVY5VHIrCnBWaldYUHh4VXJZYXhPNDhDWnUrc1NlTkhsL2gzOGk0VGpwbktqSnRXWEtYaUp0d29BQXdDZ1lJS29a"
    "SXpqMEUKQXdJRFJ3QXdSQUlnUFJIY1VHeFJXZ2oyV1Jkb29RTlR1VVN4em85Q3g4cjg4MEN4MjdOSjZNa0NJRmxzNFkrZwp6TmNx"
    "SjhTMUpzeG85Ynh6WUhkNE9jZDJvR1J6WFplc3Ntc2UKLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg=="
)
"""A request for jane of fuzz, whose key nobody has."""
_APPROVED = {"type": "Approved", "status": "True", "reason": "r", "message": "m"}
_FAILED = {"type": "Failed", "status": "True", "reason": "r", "message": "m"}
_RULES = [{"apiGroups": ["none.io"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]
_CONTAINER = {"name": "c", "image": "i"}
_RUNNING = {
    "name": "c",
    "image": "i",
    "imageID": "i",
    "ready": True,
    "restartCount": 0,
    "containerID": "containerd://1",
    "state": {"running": {"startedAt": "2030-12-31T00:00:00Z"}},
}
_UPGRADES = (
    {
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        "sec-websocket-protocol": "v4.channel.k8s.io",
    },
    {
        "upgrade": "SPDY/3.1",
        "connection": "Upgrade",
        "x-stream-protocol-version": "v4.channel.k8s.io",
    },
)


def steps(draw: Random, namespace: str) -> Iterator[tuple[str, str, str, Json, dict[str, str]]]:
    """Method, path, media type, body and headers of one such conversation; a body of None is none."""
    core, made = f"/api/v1/namespaces/{namespace}", "application/json"
    sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    services = "/apis/apiregistration.k8s.io/v1/apiservices"
    what = draw.randrange(6)
    if what == 0:
        yield (
            "POST",
            _CSRS,
            made,
            {
                "metadata": {"name": "c"},
                "spec": {
                    "request": _REQUEST,
                    "signerName": "a.io/b",
                    "usages": ["digital signature"],
                },
            },
            {},
        )
        yield "PATCH", f"{_CSRS}/c/approval", MERGE, {"status": {"conditions": [_APPROVED]}}, {}
        both = {"status": {"conditions": [_APPROVED, _FAILED]}}
        yield "PATCH", f"{_CSRS}/c/status", draw.choice((MERGE, STRATEGIC)), both, {}
        yield "DELETE", f"{_CSRS}/c", made, None, {}
    elif what == 1:
        at = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.x.io/status"
        yield "PATCH", at, MERGE, {"status": {"storedVersions": ["v1"]}}, {}
        yield "GET", at, made, None, {}
    elif what == 2:
        yield (
            "POST",
            services,
            made,
            {
                "metadata": {"name": "v1.z.io"},
                "spec": {
                    "group": "z.io",
                    "version": "v1",
                    "groupPriorityMinimum": 100,
                    "versionPriority": 10,
                },
            },
            {},
        )
        condition = {"type": "Available", "status": draw.choice(("True", "False")), "reason": "r"}
        at = f"{services}/v1.z.io"
        yield "PATCH", f"{at}/status", MERGE, {"status": {"conditions": [condition]}}, {}
        yield "DELETE", at, made, None, {}
    elif what == 3:
        labels = {"a": "b"}
        yield (
            "POST",
            sets,
            made,
            {
                "metadata": {"name": "r"},
                "spec": {
                    "replicas": 1,
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": [_CONTAINER]},
                    },
                },
            },
            {},
        )
        yield "PATCH", f"{sets}/r/scale", MERGE, {"spec": {"replicas": draw.randrange(4)}}, {}
        yield "GET", f"{sets}/r/scale", made, None, {}
    elif what == 4:
        yield (
            "POST",
            policies,
            made,
            {
                "metadata": {"name": "v"},
                "spec": {
                    "matchConstraints": {"resourceRules": _RULES},
                    "validations": [{"expression": "true"}],
                },
            },
            {},
        )
        yield "PATCH", f"{policies}/v/status", MERGE, {"status": {"observedGeneration": 1}}, {}
        yield "DELETE", f"{policies}/v", made, None, {}
    else:
        yield from _inside(draw, PurePosixPath(core, "pods", "running"))


def _inside(
    draw: Random, pod: PurePosixPath
) -> Iterator[tuple[str, str, str, Json, dict[str, str]]]:
    """A pod that runs, its log, and connections into it."""
    made = "application/json"
    nodes = draw.choice(("n", "node-0"))
    yield (
        "POST",
        str(pod.parent),
        made,
        {"metadata": {"name": pod.name}, "spec": {"nodeName": nodes, "containers": [_CONTAINER]}},
        {},
    )
    status = {"status": {"phase": "Running", "containerStatuses": [_RUNNING]}}
    yield "PATCH", f"{pod}/status", STRATEGIC, status, {}
    debugger = {"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}
    yield "PATCH", f"{pod}/ephemeralcontainers", STRATEGIC, debugger, {}
    yield "GET", f"{pod}/log", made, None, {}
    for _ in range(3):
        way = draw.choice(
            ("exec?command=true&stdout=true", "attach?stdout=true", "portforward?ports=80")
        )
        method = draw.choice(("GET", "POST"))
        yield method, f"{pod}/{way}", made, None, dict(draw.choice(_UPGRADES))
