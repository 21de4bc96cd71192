"""A DaemonSet that is deleted and made again under its name has no pods: a script against any cluster.

    kubectl proxy &
    python recreated_daemonsets.py http://127.0.0.1:8001 --sets 100

Each round makes a DaemonSet, deletes it after some milliseconds and makes it again, as `kubectl replace --force` does.
Then the script waits, counts the sets that have no pod of their own on any node, and exits with status 1 if there are
any. With `--wait 360` it waits longer than the controller's expectations last (five minutes).

Needs only Python's standard library, a node, and rights on DaemonSets and pods of one namespace. It removes its sets.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import time
from typing import Any
from urllib.parse import urlsplit

PREFIX = "recreated-"
PAUSES_S = (0.0, 0.003, 0.006, 0.012, 0.024)
"""Pauses between a creation and the deletion: the controller is to be at work on the set."""


class Api:
    """One connection to a namespace."""

    def __init__(self, url: str, token: str, namespace: str) -> None:
        parts = urlsplit(url)
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        make = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._connection = make(parts.hostname or "127.0.0.1", parts.port, timeout=30)
        self.sets = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send one request; status code and content of its answer."""
        data = None if body is None else json.dumps(body)
        self._connection.request(method, path, data, self._headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")


def daemon_set(name: str) -> dict[str, object]:
    """A DaemonSet for every node, whatever its taints."""
    labels = {"app": name}
    containers = [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]
    spec = {"tolerations": [{"operator": "Exists"}], "containers": containers}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def make_again(api: Api, name: str, pause_s: float) -> str:
    """Make a set, delete it, make it again; the uid of the last one."""
    status, _ = api.ask("POST", api.sets, daemon_set(name))
    if status != 201:
        raise SystemExit(
            f"DaemonSet {name} cannot be created ({status}): it exists, or the token is missing"
        )
    time.sleep(pause_s)
    remove(api, name)
    status, made = api.ask("POST", api.sets, daemon_set(name))
    if status != 201:
        raise SystemExit(f"DaemonSet {name} cannot be created again ({status})")
    uid: str = made["metadata"]["uid"]
    return uid


def remove(api: Api, name: str) -> None:
    """Delete a set; its pods are left to the garbage collector."""
    api.ask("DELETE", f"{api.sets}/{name}", {"propagationPolicy": "Background"})


def main() -> int:
    """Make the sets again, wait, and count those without pods."""
    parser = argparse.ArgumentParser(
        description="Does a DaemonSet that is made again get its pods?"
    )
    parser.add_argument("url", help="of an API server, or of kubectl proxy, which needs no token")
    parser.add_argument("--token", default="", help="of a user who may change DaemonSets")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--wait", type=float, default=60, help="seconds until the pods are counted")
    asked = parser.parse_args()
    api = Api(asked.url, asked.token, asked.namespace)
    names = [f"{PREFIX}{number}" for number in range(asked.sets)]
    uids = {
        name: make_again(api, name, PAUSES_S[at % len(PAUSES_S)]) for at, name in enumerate(names)
    }
    time.sleep(asked.wait)
    owners = {
        owner["uid"]
        for pod in api.ask("GET", api.pods)[1]["items"]
        for owner in pod["metadata"].get("ownerReferences", ())
    }
    without = [name for name, uid in uids.items() if uid not in owners]
    for name in names:
        remove(api, name)
    shown = f": {', '.join(without[:5])} ..." if without else ""
    print(f"without pods after {asked.wait:g} s: {len(without)} of {len(names)} DaemonSets{shown}")
    return 1 if without else 0


if __name__ == "__main__":
    sys.exit(main())
