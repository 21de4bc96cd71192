"""An update that ends a deletion removes the new object of the name: a script against any API server.

    kubectl proxy &
    python update_removes_successor.py http://127.0.0.1:8001 --rounds 200

Each round makes a config map with a finalizer, deletes it, takes the finalizer off with several clients at once, and
creates the config map anew as soon as its name is free. Nothing deletes the new one. The script counts how often it is
gone all the same, and exits with status 1 if it was.

Needs only Python's standard library, and rights on config maps of one namespace. It cleans up after itself.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import threading
import time
from urllib.parse import urlsplit

PATCH = "application/merge-patch+json"
NAME = "update-removes-successor"
PATIENCE_S = 10.0
"""How long a name may stay taken before a round is given up."""


class Api:
    """One connection to the config maps of a namespace."""

    def __init__(self, server: tuple[str, str], namespace: str) -> None:
        url, token = server
        parts = urlsplit(url)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        make = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._connection = make(parts.hostname or "127.0.0.1", parts.port, timeout=30)
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"

    def ask(
        self, method: str, name: str = "", body: object = None, media: str = "application/json"
    ) -> int:
        """Send one request; the status code of its answer."""
        path = f"{self._path}/{name}" if name else self._path
        data = None if body is None else json.dumps(body)
        self._connection.request(method, path, data, {"Content-Type": media, **self._headers})
        answer = self._connection.getresponse()
        answer.read()
        return answer.status


def config_map(*finalizers: str) -> dict[str, object]:
    """The config map, with finalizers."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "finalizers": list(finalizers)},
    }


def take_off(api: Api, begin: threading.Barrier) -> None:
    """Take the finalizer off, as a controller does that has cleaned up."""
    begin.wait()
    api.ask("PATCH", NAME, {"metadata": {"finalizers": None}}, PATCH)


def one_round(server: tuple[str, str], namespace: str, clients: int) -> bool | None:
    """Return whether the new config map is gone; None when the name never became free."""
    api = Api(server, namespace)
    if api.ask("POST", body=config_map("example.com/cleanup")) != 201:
        raise SystemExit(f"config map {NAME} cannot be created: it exists, or the token is missing")
    api.ask("DELETE", NAME)
    begin = threading.Barrier(clients + 1)
    threads = [
        threading.Thread(target=take_off, args=(Api(server, namespace), begin))
        for _ in range(clients)
    ]
    for each in threads:
        each.start()
    begin.wait()
    end = time.monotonic() + PATIENCE_S
    while (made := api.ask("POST", body=config_map())) != 201 and time.monotonic() < end:
        time.sleep(0.0005)
    for each in threads:
        each.join()
    if made != 201:
        return None
    gone = api.ask("GET", NAME) == 404
    if not gone:
        api.ask("DELETE", NAME)
    return gone


def main() -> int:
    """Run the rounds and count; exit status 1 when a config map was lost."""
    parser = argparse.ArgumentParser(
        description="Does an update remove the new object of the name?"
    )
    parser.add_argument("url", help="of an API server, or of kubectl proxy, which needs no token")
    parser.add_argument("--token", default="", help="of a user who may change config maps")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument(
        "--clients", type=int, default=4, help="that take the finalizer off at once"
    )
    asked = parser.parse_args()
    server = (asked.url, asked.token)
    results = [one_round(server, asked.namespace, asked.clients) for _ in range(asked.rounds)]
    lost = results.count(True)
    tried = len(results) - results.count(None)
    print(f"lost: {lost} of {tried} config maps that were created and that nothing deleted")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
