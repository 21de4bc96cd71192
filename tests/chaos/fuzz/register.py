"""What was acknowledged, by object: the last version of each, and which are gone.

Every write is attributed: to the object that was asked for, or as a side effect that is known. What is served
afterwards has to be what was acknowledged, at once and at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.chaos.fuzz.judging import Answered, Finding
from tests.chaos.fuzz.messages import Message, parts_of, resource_of

Json = Any
Get = Callable[[str], Answered]
_WRITES = ("POST", "PUT", "PATCH", "DELETE")
_BESIDES = {
    "pods": ("poddisruptionbudgets",),  # an eviction
    "customresourcedefinitions": ("*",),
    "services": ("ipaddresses", "endpoints"),
    "*": ("resourcequotas",),
}
"""Of which resources objects may be written besides, by the resource that is asked for."""


class Register:
    """The last acknowledged version of each object, by prefix and key; None: deleted."""

    def __init__(self, store: Any) -> None:
        self._versions: dict[tuple[str, str], int | None] = {}
        self._trees: dict[tuple[str, str], tuple[str, Json]] = {}
        """Path and tree as they were acknowledged, of what is there."""
        self._seen: dict[str, tuple[bytes, bytes, bytes]] = {}
        self._words: dict[bytes, bytes] = {}
        self.touched: dict[str, int] = {}
        """How many writes were acknowledged, by resource."""
        self._uids: set[str] = set()
        self.follow(store)

    def follow(self, store: Any) -> None:
        """Take what the store holds now as right: the beginning, and what time has done."""
        here = _versions_of(store)
        for place, version in self._versions.items():
            if version is not None and place not in here:
                self._versions[place] = None
                self._trees.pop(place, None)
        for place, version in here.items():
            if self._versions.get(place) != version:
                self._trees.pop(place, None)
            self._versions[place] = version

    def known(self, place: str) -> dict[bytes, bytes]:
        """What stands for the words of a message about an object."""
        first, last, uid = self._seen.get(place, (b"1", b"1", b"x"))
        return {**self._words, b"@rv@": last, b"@old@": first, b"@uid@": uid}

    def _learn(self, place: str, answered: Answered) -> None:
        tree = answered.tree
        meta = tree.get("metadata") if isinstance(tree, dict) else None
        if not isinstance(meta, dict):
            return
        if isinstance(meta.get("continue"), str):
            self._words[b"@continue@"] = meta["continue"].encode()
        status = tree.get("status")
        if tree.get("kind") == "TokenRequest" and isinstance(status, dict):
            self._words[b"@token@"] = str(status.get("token", "")).encode()
        version, uid = meta.get("resourceVersion"), meta.get("uid")
        if answered.code < 300 and isinstance(version, str) and isinstance(uid, str):
            first = self._seen.get(place, (version.encode(),))[0]
            self._seen[place] = first, version.encode(), uid.encode()

    def answered(
        self, message: Message, answered: Answered, events: Any, store: Any, get: Get
    ) -> list[Finding]:
        """What is wrong with what an answer says and what was written."""
        asked = resource_of(message.path)
        tree, place = answered.tree, message.place
        ok = answered.code < 300
        if ok and message.method == "POST" and isinstance(tree, dict) and not place:
            meta = tree.get("metadata")
            if isinstance(meta, dict) and meta.get("name"):
                place = f"{message.path.rstrip('/')}/{meta['name']}"
        self._learn(place, answered)
        writes = message.method in _WRITES
        if not writes or message.dry or not ok:
            if events and not (message.method == "DELETE" and not message.place):
                wrong = [each for each in events if "/resourcequotas/" not in each[0]]
                if answered.code in (400, 406, 500) and "as=" in message.header("accept"):
                    wrong = []  # whether an object can be shown so is seen when it is written
                if wrong:
                    self.follow(store)
                    told = f"{answered.code}: {[(p, e.key) for p, e in wrong]}"
                    why = "dry run" if message.dry else "read" if not writes else "refused request"
                    return [Finding("register", f"a {why} wrote to {asked}", told)]
            self._note(events)
            return []
        self.touched[asked] = self.touched.get(asked, 0) + 1
        self._note(events)
        found = _besides(asked, message, events)
        if (
            place
            and len(parts_of(message.path))
            and place in (message.path, f"{message.path.rstrip('/')}/{place.rpartition('/')[2]}")
        ):
            found += self._served(message, answered, place, events, get)
        return found

    def _note(self, events: Any) -> None:
        for prefix, event in events:
            self._versions[prefix, event.key] = None if event.new is None else event.revision
            self._trees.pop((prefix, event.key), None)
            if prefix.endswith(
                "/customresourcedefinitions/"
            ):  # another schema may show other fields
                self._trees = {
                    at: each
                    for at, each in self._trees.items()
                    if ".k8s.io" in each[0] or "." not in each[0].split("/")[2]
                }

    def _served(
        self, message: Message, answered: Answered, place: str, events: Any, get: Get
    ) -> list[Finding]:
        """The object that was asked for is served as it was acknowledged."""
        tree = answered.tree if isinstance(answered.tree, dict) else {}
        meta = tree.get("metadata") if isinstance(tree.get("metadata"), dict) else {}
        assert isinstance(meta, dict)
        uid = meta.get("uid")
        if tree.get("kind") in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"):
            return []
        if message.method == "DELETE":
            gone = [event for _, event in events if event.new is None]
            shown = get(place)
            if gone and shown.code != 404:
                return [Finding("register", "what was deleted is served", f"{place}: {shown.code}")]
            return []
        if not uid or "resourceVersion" not in meta:
            return []
        own = [each for each in events if each[1].new is not None and each[1].new.uid == uid]
        if own and own[-1][1].revision != int(meta["resourceVersion"]):
            return []  # something went on with it in the same step
        gone = [
            each
            for each in events
            if each[1].new is None and each[1].old is not None and each[1].old.uid == uid
        ]
        shown = get(place)
        if gone:
            if shown.code != 404:
                return [Finding("register", "what was removed is served", f"{place}: {shown.code}")]
            return []
        if shown.tree != tree:
            told = f"{place}: acknowledged {tree}, served {shown.tree}"[:6000]
            return [Finding("register", f"another object is served: {tree.get('kind')}", told)]
        if own:
            prefix, event = own[-1]
            self._trees[prefix, event.key] = place, tree
        return []

    def compared(self, store: Any, get: Get) -> list[Finding]:
        """What is not as it was acknowledged, at the end."""
        here = _versions_of(store)
        found = []
        for place in sorted(here.keys() | self._versions.keys()):
            known = self._versions.get(place)
            if here.get(place) != known:
                told = f"{place}: {here.get(place)} instead of {known}"
                found.append(Finding("register", "the store holds something else", told))
        for (prefix, key), (path, tree) in sorted(self._trees.items()):
            shown = get(path)
            if shown.code in (404, 403):  # its definition is gone, or its version served no more
                if "." in path.split("/")[2]:
                    continue
            if shown.tree != tree:
                told = f"{prefix}{key}: {tree}, served {shown.code} {shown.tree}"[:6000]
                found.append(Finding("register", "another object is served at the end", told))
        return found


def _besides(asked: str, message: Message, events: Any) -> list[Finding]:
    """Writes that nobody asked for."""
    resource = asked.partition("/")[2].partition("/")[0]
    allowed = (*_BESIDES.get(resource, ()), *_BESIDES["*"])
    if "*" in allowed or message.path.endswith("/binding") or resource == "bindings":
        return []
    wanted = {
        "events": ("events",),
        "nodes": ("minions",),
        "endpoints": ("endpoints",),
        "replicationcontrollers": ("controllers",),
        "ingresses": ("ingress",),
    }.get(resource, (resource,))
    for prefix, event in events:
        if not any(f"/{each}/" in prefix for each in (*wanted, *allowed)):
            return [Finding("register", f"a write to {asked} wrote to {prefix}", event.key)]
    return []


def _versions_of(store: Any) -> dict[tuple[str, str], int]:
    return {
        (prefix, key): entry.mod_revision
        for prefix in store.prefixes()
        for key, entry in store.keyspace(prefix).entries.items()
    }
