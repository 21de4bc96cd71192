"""An operator for shelves, in plain Python: informers with caches as client-go has them, one worker.

A Shelf has a key (a Secret), a label (a ConfigMap), boards (ConfigMaps `NAME-0`, `NAME-1`, ...) and its books
(ConfigMap `NAME-books`), which the operator removes itself, by a finalizer. `SHORTCUTS` names mistakes to make:

    crash   the label is made only right after the key: a crash between the two leaves none
    skip    a smaller shelf loses one board for each change that was seen, however many are too many
    stale   the books of a deleted shelf are removed by name, though they may be those of the next shelf
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import ssl
import sys
import threading
import time
from pathlib import Path

ACCOUNT = Path(
    os.environ.get("SERVICE_ACCOUNT_DIR", "/var/run/secrets/kubernetes.io/serviceaccount")
)
SHELVES = "/apis/example.com/v1/shelves"
FINALIZER = "example.com/books"
SHORTCUTS = frozenset(os.environ.get("SHORTCUTS", "").split(","))


class Api:
    """The API server, as the pod's service account."""

    def __init__(self) -> None:
        self.host = (
            os.environ["KUBERNETES_SERVICE_HOST"],
            int(os.environ["KUBERNETES_SERVICE_PORT"]),
        )
        self.token = (ACCOUNT / "token").read_text()
        self.tls = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
        self.kept: http.client.HTTPSConnection | None = None

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(*self.host, context=self.tls)

    def send(self, connection, method, path, body=None):
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/merge-patch+json"
            if method == "PATCH"
            else "application/json",
        }
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection.getresponse()

    def ask(self, method, path, body=None):
        """Return code and tree; a broken connection is an error, as the effect is unknown."""
        self.kept = self.kept or self.connect()
        try:
            answer = self.send(self.kept, method, path, body)
            return answer.status, json.loads(answer.read() or b"null")
        except BaseException:
            self.kept.close()
            self.kept = None
            raise


class Informer(threading.Thread):
    """A cache of one resource, kept up to date by a list from the API server's cache and a watch."""

    def __init__(self, api, path, changed) -> None:
        super().__init__(daemon=True)
        self.api, self.path, self.changed = api, path, changed
        self.cache: dict[str, dict] = {}
        self.synced = threading.Event()

    def run(self) -> None:
        while True:
            try:
                self.follow()
            except (OSError, http.client.HTTPException, ValueError) as error:
                print(f"watch of {self.path}: {error!r}", flush=True)
                time.sleep(0.1)

    def follow(self) -> None:
        connection = self.api.connect()
        answer = self.api.send(connection, "GET", f"{self.path}?resourceVersion=0")
        if answer.status != 200:
            raise ValueError(answer.read().decode())
        listed = json.loads(answer.read())
        found = {key_of(each): each for each in listed["items"]}
        for key in [*self.cache, *found]:
            self.changed(key, found.get(key) or self.cache.get(key))
        self.cache = found
        self.synced.set()
        version = listed["metadata"]["resourceVersion"]
        answer = self.api.send(
            connection, "GET", f"{self.path}?watch=true&resourceVersion={version}"
        )
        for line in answer:
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise ValueError(event["object"].get("message"))
            key = key_of(event["object"])
            if event["type"] == "DELETED":
                self.cache.pop(key, None)
            else:
                self.cache[key] = event["object"]
            self.changed(key, event["object"])


def key_of(tree):
    meta = tree["metadata"]
    return f"{meta['namespace']}/{meta['name']}"


class Operator:
    def __init__(self) -> None:
        self.api = Api()
        self.work: queue.Queue[str] = queue.Queue()
        self.seen: dict[str, int] = {}
        self.shelves = Informer(self.api, SHELVES, lambda key, _tree: self.work.put(key))
        self.maps = Informer(self.api, "/api/v1/configmaps", self.child)
        self.secrets = Informer(self.api, "/api/v1/secrets", self.child)

    def child(self, _key, tree) -> None:
        for owner in tree["metadata"].get("ownerReferences") or ():
            if owner["kind"] == "Shelf":
                self.work.put(f"{tree['metadata']['namespace']}/{owner['name']}")

    def run(self) -> None:
        informers = (self.shelves, self.maps, self.secrets)
        for each in informers:
            each.start()
        for each in informers:
            each.synced.wait()
        while True:
            key = self.work.get()
            while not self.work.empty():  # a key that waits already is worked on once
                later = self.work.get()
                if later != key:
                    self.work.put(later)
                    break
            try:
                self.reconcile(key)
            except (OSError, http.client.HTTPException, Retry) as error:
                print(f"{key}: again: {error!r}", flush=True)
                threading.Timer(0.05, self.work.put, (key,)).start()

    def reconcile(self, key: str) -> None:
        shelf = self.shelves.cache.get(key)
        if shelf is None:
            self.seen.pop(key, None)
            return
        self.base = f"/api/v1/namespaces/{shelf['metadata']['namespace']}"
        if "stale" not in SHORTCUTS:  # a cache may be behind: decide by what is true
            code, shelf = self.api.ask("GET", self.path(shelf))
            if code == 404:
                return
            if code != 200:
                raise Retry(f"GET: {shelf.get('message')}")
        meta = shelf["metadata"]
        name = meta["name"]
        if meta.get("deletionTimestamp"):
            self.remove(shelf)
            return
        if FINALIZER not in (meta.get("finalizers") or ()):
            self.write("PATCH", self.path(shelf), {"metadata": {"finalizers": [FINALIZER],
                       "resourceVersion": meta["resourceVersion"]}})  # fmt: skip
            return
        has_key = f"{key}-key" in self.secrets.cache
        if not has_key:
            self.make("secrets", shelf, f"{name}-key", {"key": "c2hlbGY="}, kind="Secret")
        if f"{key}-label" not in self.maps.cache and (not has_key or "crash" not in SHORTCUTS):
            self.make("configmaps", shelf, f"{name}-label", {"text": name})
        if f"{key}-books" not in self.maps.cache:
            self.make("configmaps", shelf, f"{name}-books", {"books": "none"})
        wanted = shelf["spec"].get("boards", 1)
        boards = {
            int(each.rpartition("-")[2])
            for each in self.maps.cache
            if each.startswith(f"{key}-") and each.rpartition("-")[2].isdigit()
        }
        for number in range(wanted):
            if number not in boards:
                self.make("configmaps", shelf, f"{name}-{number}", {"board": str(number)})
        before = self.seen.get(key, wanted)
        self.seen[key] = wanted
        if "skip" in SHORTCUTS:
            surplus = [before - 1] if before > wanted else []
        else:
            surplus = sorted(each for each in boards if each >= wanted)
        for number in surplus:
            self.write("DELETE", f"{self.base}/configmaps/{name}-{number}")
        status = {"boards": wanted}
        if (shelf.get("status") or {}) != status:
            self.write("PATCH", f"{self.path(shelf)}/status", {"status": status})

    def remove(self, shelf) -> None:
        """Take the books away, and let the shelf go."""
        meta = shelf["metadata"]
        books = f"{self.base}/configmaps/{meta['name']}-books"
        if "stale" in SHORTCUTS:
            self.write("DELETE", books)
        else:
            code, found = self.api.ask("GET", books)
            owners = found["metadata"].get("ownerReferences") or () if code == 200 else ()
            if any(each["uid"] == meta["uid"] for each in owners):
                self.write("DELETE", books, {"preconditions": {"uid": found["metadata"]["uid"]}})
        if FINALIZER in (meta.get("finalizers") or ()):
            self.write("PATCH", self.path(shelf), {"metadata": {"finalizers": None,
                       "uid": meta["uid"]}})  # fmt: skip

    def path(self, shelf) -> str:
        meta = shelf["metadata"]
        return f"/apis/example.com/v1/namespaces/{meta['namespace']}/shelves/{meta['name']}"

    def make(self, resource, shelf, name, data, kind="ConfigMap") -> None:
        owner = {"apiVersion": "example.com/v1", "kind": "Shelf", "name": shelf["metadata"]["name"],
                 "uid": shelf["metadata"]["uid"], "controller": True}  # fmt: skip
        tree = {"apiVersion": "v1", "kind": kind, "data": data,
                "metadata": {"name": name, "ownerReferences": [owner]}}  # fmt: skip
        self.write("POST", f"{self.base}/{resource}", tree)

    def write(self, method, path, body=None) -> None:
        """Write; what is there already, or gone already, is well. Conflicts and errors are tried again."""
        code, answer = self.api.ask(method, path, body)
        fine = (200, 201, 202, 404) if method in ("DELETE", "PATCH") else (200, 201)
        if code not in fine:
            raise Retry(f"{method} {path}: {answer.get('message')}")


class Retry(Exception):
    """To be tried again."""


if __name__ == "__main__":
    sys.exit(Operator().run())
