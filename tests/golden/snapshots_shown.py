"""What a world with snapshots did, in the words of the recordings."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from controlplane.cluster_config import EPOCH_NS
from tests.golden.snapshots_world import (
    CLOCK,
    COMPONENTS,
    DROPPED,
    PLACES,
    UID,
    WATCHED,
    SnapshotWorld,
)

Json = Any
VERBS = {"create": "create", "update": "update", "patch": "patch", "delete": "delete"}


class Shown:
    """The lists that a case is compared by."""

    def __init__(self, world: SnapshotWorld) -> None:
        self.world = world
        self.names: dict[str, str] = {}
        store = world.cluster.store
        self._history = sorted(
            (event for kind in PLACES for event in store.keyspace(PLACES[kind][3]).events_after(0)),
            key=lambda event: event.revision,
        )
        self._writers = {
            entry.rv: (entry.data, entry.step)
            for entry in world.log
            if entry.event == "apiserver.write" and entry.data["code"] < 300
        }
        self._learn_names()
        self.steps: dict[str, int] = {}
        self.watch = self._changes()
        self.rpcs = self._calls()
        self.events = self._events()
        self.final = self._final()

    # ------------------------------------------------------------------ names

    def _learn_names(self) -> None:
        seen: dict[str, int] = {}
        handles: dict[str, None] = {}
        groups: list[tuple[str, str]] = []
        hashes: dict[str, str] = {}
        for probe in self.world.probes:
            for call in probe.calls:
                for handle in (
                    *call.fields.get("source_volume_ids", ()),
                    call.fields.get("source_volume_id", ""),
                ):
                    if handle:
                        handles[handle] = None
            handles.update(dict.fromkeys(probe.driver.volumes))
        for event in self._history:
            if event.old is not None or event.new is None:
                continue
            tree = event.new.tree
            if tree["kind"] == "VolumeGroupSnapshot":
                groups.append((event.new.uid, event.new.name))
        for uid, name in groups:
            for handle in handles:
                digest = hashlib.sha256((uid + handle).encode()).hexdigest()
                hashes[digest] = f"<hash:VolumeGroupSnapshot/{name}+{handle}>"
        self.hashes = hashes
        for event in self._history:
            if event.old is None and event.new is not None:
                label = f"{event.new.tree['kind']}/{self.text(event.new.name)}"
                seen[label] = number = seen.get(label, 0) + 1
                suffix = f"#{number}" if number > 1 else ""
                self.names[event.new.uid] = f"uid:{label}{suffix}"
        counts: dict[str, int] = {}
        for probe in self.world.probes:
            for call in probe.calls:
                if call.reply is not None:
                    self._learn_ids(call.reply.response, call.fields.get("name", ""), counts)
                self._learn_disk(probe.driver, counts, call)

    def _number(self, label: str, counts: dict[str, int]) -> str:
        counts[label] = number = counts.get(label, 0) + 1
        return f"{label}#{number}" if number > 1 else label

    def _learn(self, value: str, label: str, counts: dict[str, int]) -> None:
        if UID.fullmatch(value) and value not in self.names and value not in self._given():
            self.names[value] = self._number(label, counts)

    def _given(self) -> set[str]:
        case = self.world.case
        drivers = case.get("drivers") or [case["driver"]]
        return {
            each["id"]
            for driver in drivers
            for key in ("volumes", "snapshots", "groups")
            for each in driver.get(key, ())
        }

    def _learn_disk(self, driver: Any, counts: dict[str, int], call: Any) -> None:
        for snapshot in driver.snapshots.values():
            self._learn(snapshot.id, f"snap:{self.text(snapshot.volume)}", counts)
        for group in driver.groups.values():
            self._learn(group.id, "group", counts)

    def _learn_ids(self, response: Json, name: str, counts: dict[str, int]) -> None:
        group = response.get("group_snapshot")
        snapshots = [response["snapshot"]] if "snapshot" in response else []
        if group:
            self._learn(group["group_snapshot_id"], "group", counts)
            ordered = sorted(group["snapshots"], key=lambda each: each["source_volume_id"])
            snapshots += ordered
        for each in snapshots:
            about = self.text(each["source_volume_id"])
            self._learn(each["snapshot_id"], f"snap:{about}", counts)
        volume = response.get("volume")
        if volume:
            self._learn(volume["volume_id"], f"volume:{self.text(name)}", counts)

    def text(self, value: str) -> str:
        """A text with placeholders."""
        value = CLOCK.sub("<time>", value)
        for digest, name in self.hashes.items():
            if digest in value:
                value = value.replace(digest, name)
        value = UID.sub(lambda m: f"<{self.names[m[0]]}>" if m[0] in self.names else m[0], value)
        for length in self.world.uid_flags:
            for uid, name in self.names.items():
                short = uid.replace("-", "")[:length]
                value = re.sub(rf"-{short}$", f"-<{name}:nodash:first {length}>", value)
        return value

    def shown(self, value: Json, key: str = "") -> Json:
        """A value with placeholders."""
        if isinstance(value, dict):
            return {self.text(k): self.shown(v, k) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.shown(each, key) for each in value]
        if isinstance(value, bool):
            return value
        if isinstance(value, int) and value >= EPOCH_NS // 2 and value > 1_767_000_000 * 10**9:
            return "<ns>"
        if isinstance(value, str):
            if key == "storage.kubernetes.io/csiProvisionerIdentity":
                return "<identity>"
            return "<rv>" if key == "resourceVersion" else self.text(value)
        return value

    # ------------------------------------------------------------------ changes

    def _changes(self) -> dict[str, list[Json]]:
        found: dict[str, list[Json]] = {}
        for event in self._history:
            obj = event.new or event.old
            if obj.kind not in WATCHED or event.revision <= self.world.began_revision:
                continue
            place = self.place(obj)
            change = self._change(event)
            listed = found.setdefault(place, [])
            data, step = self._writers.get(event.revision, ({"verb": "?", "by": "?"}, 0))
            if event.new is None and data["verb"].startswith("patch"):
                data = self._last_of_finalizers(obj.key, obj.kind) or data
            words = data["verb"].split()
            verb, _, sub = words[0], "", words[1].partition("/")[2]
            change["by"] = COMPONENTS.get(data.get("by", ""), data.get("by", ""))
            change["verb"] = f"{verb} {sub}" if sub else verb
            self.steps[f"{place}[{len(listed)}]"] = step
            listed.append(change)
        return found

    def _last_of_finalizers(self, key: str, kind: str) -> Json:
        """Recordings name as who let an object go by a patch the last one to patch finalizers of that name."""
        found = None
        for event in self._history:
            obj, old = event.new or event.old, event.old
            if (obj.kind, obj.key) != (kind, key) or old is None:
                continue
            data, _ = self._writers.get(event.revision, (None, 0))
            held = [] if event.new is None else event.new.metadata.get("finalizers")
            if data and data["verb"].startswith("patch") and held != old.metadata.get("finalizers"):
                found = data
        return found

    def place(self, obj: Any) -> str:
        return f"{obj.kind}/{self.text(obj.key)}"

    def _change(self, event: Any) -> Json:
        if event.new is None:
            return {"change": "delete"}
        if event.old is None:
            return {"change": "create", "object": self._whole(event.new.tree)}
        before, after = (_leaves(self._whole(each.tree)) for each in (event.old, event.new))
        change: Json = {"change": "update"}
        changed = {key: value for key, value in after.items() if before.get(key, _NONE) != value}
        gone = sorted(key for key in before if key not in after)
        if changed:
            change["set"] = changed
        if gone:
            change["unset"] = gone
        return change

    def _whole(self, tree: Json) -> Json:
        return self.shown(_kept(tree))

    # ------------------------------------------------------------------ calls, events, the end

    def _calls(self) -> dict[str, list[Json]]:
        found: dict[str, list[Json]] = {}
        for number, probe in enumerate(self.world.probes):
            for call in probe.calls:
                lacking = call.reply is not None and "unknown service" in call.reply.message
                if call.method == "ControllerGetCapabilities" or lacking:
                    continue
                request = self._wire(call.fields)
                about = next(
                    request[field]
                    for field in ("name", "snapshot_id", "group_snapshot_id", "volume_id")
                    if field in request
                )
                key = f"{call.method}({about})"
                entry: Json = {"key": key, "method": call.method, "request": request}
                entry["code"] = "PENDING" if call.reply is None else call.reply.code
                if call.reply is not None and call.reply.message:
                    entry["message"] = self.text(call.reply.message)
                if call.reply is not None and self._wire(call.reply.response):
                    entry["response"] = self._wire(call.reply.response)
                if number:
                    entry["driver"] = probe.driver.options.name
                listed = found.setdefault(key, [])
                self.steps[f"RPC({key})[{len(listed)}].begin"] = call.began
                self.steps[f"RPC({key})[{len(listed)}].end"] = call.ended
                self.steps[f"{key}[{len(listed)}].begin"] = call.began
                self.steps[f"{key}[{len(listed)}].end"] = call.ended
                entry["began_ns"] = call.began_ns
                listed.append(entry)
        return found

    def _wire(self, value: Json) -> Json:
        """As protobuf's JSON has it: times as text, sizes as text, defaults absent."""
        if isinstance(value, (list, tuple)):
            return [self._wire(each) for each in value]
        if not hasattr(value, "items"):
            return self.text(value) if isinstance(value, str) else value
        shown = {}
        for key, each in value.items():
            if key == "creation_time":
                shown[key] = "<time>" if each > 1_767_000_000 * 10**9 else "2024-12-17T00:00:00Z"
            elif key in ("size_bytes", "required_bytes", "capacity_bytes"):
                if each:
                    shown[key] = str(each)
            elif each or each == {}:
                shown[self.text(key)] = self._wire(each)
        return shown

    def _events(self) -> list[Json]:
        found: list[Json] = []
        history = self.world.cluster.store.keyspace("/registry/events/").events_after(0)
        for event in history:
            if event.new is None:
                continue
            tree = event.new.tree
            about = tree["involvedObject"]
            key = "/".join(about[k] for k in ("namespace", "name") if about.get(k))
            shown = {
                "object": f"{about['kind']}/{self.text(key)}",
                "type": tree["type"],
                "reason": tree["reason"],
                "message": self.text(tree["message"]),
                "from": tree["source"]["component"],
            }
            if shown not in found:
                found.append(shown)
        return found

    def _final(self) -> list[Json]:
        found = []
        for kind in WATCHED:
            for obj in self.world.cluster.objects(PLACES[kind][3]):
                found.append(self._whole(obj.tree))
        return found


_NONE = object()


def _kept(tree: Json) -> Json:
    metadata = {key: value for key, value in tree["metadata"].items() if key not in DROPPED}
    version = f"{tree['apiVersion'].rpartition('/')[0]}/v1".lstrip("/")  # as its watchers see it
    return {**tree, "apiVersion": version, "metadata": metadata}


def _leaves(value: Json, path: str = "") -> dict[str, Json]:
    if isinstance(value, dict) and value:
        found: dict[str, Json] = {}
        for key, each in value.items():
            found.update(_leaves(each, f"{path}/{key.replace('~', '~0').replace('/', '~1')}"))
        return found
    return {path: value}


def compact(value: Json) -> str:
    return json.dumps(value, sort_keys=True)
