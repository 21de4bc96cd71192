"""The kubelet's manager of claims, with drivers that answer as the case says."""

from __future__ import annotations

import json
from typing import Any

from controlplane.api.object import Object
from controlplane.client.calls import Call
from controlplane.client.errors import ApiError
from controlplane.decisions import Write
from controlplane.kubelet.cm.dra.claim_info import ClaimCache
from controlplane.kubelet.cm.dra.manager import DRAManager
from controlplane.kubelet.cm.dra.messages import (
    PREPARE,
    ClaimRef,
    Device,
    DriverCall,
    DriverFailed,
    Prepared,
    Response,
)
from controlplane.kubelet.cm.errors import ManagerError
from tests.golden.devices_server import not_found


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return value


class _Run:
    def __init__(self, case: Any) -> None:
        self.drivers: dict[str, Any] = case["drivers"]
        self.pods = {each["metadata"]["name"]: each for each in case["pods"]}
        self.claims = {_key(each["metadata"]): each for each in case["resourceClaims"]}
        self.text: str | None = case.get("checkpoint")
        self.calls: list[str] = []
        self.manager = self.started()

    def started(self) -> DRAManager:
        """A manager on the same directory. Raises ManagerError."""
        manager = DRAManager(ClaimCache.restore(self.text), self.drivers.__contains__)
        self.run(manager.start(self.text))
        return manager

    def run(self, operation: Any) -> None:
        answer: Any = None
        failure: Exception | None = None
        while True:
            try:
                effect = operation.send(answer) if failure is None else operation.throw(failure)
            except StopIteration:
                return
            answer = failure = None
            if isinstance(effect, Write):
                self.text = effect.content.text
            elif isinstance(effect, Call):
                found = self.claims.get(f"{effect.namespace}/{effect.name}")
                if found is None:
                    failure = not_found("resourceclaims", effect.name)
                else:
                    answer = Object(found)
            else:
                try:
                    answer = self.answered(effect)
                except DriverFailed as error:
                    failure = error

    def answered(self, call: DriverCall) -> Response:
        behavior = self.drivers[call.driver]
        prepares = call.method == PREPARE
        verb = "prepare" if prepares else "unprepare"
        self.calls.append(f"{verb} {call.driver} {','.join(sorted(map(str, call.claims)))}")
        error = behavior.get(f"{verb}Error")
        if error:
            raise DriverFailed(f"rpc error: code = Unknown desc = {error}")
        if behavior.get("unknown"):
            return Response({behavior["unknown"]: Prepared()})
        return Response(
            {
                ref.uid: self.outcome(behavior, ref, prepares)
                for ref in call.claims
                if ref.uid not in (behavior.get("skip") or ())
            }
        )

    @staticmethod
    def outcome(behavior: Any, ref: ClaimRef, prepares: bool) -> Prepared:
        error = (behavior.get("claimErrors") or {}).get(ref.uid, "")
        if error or not prepares:
            return Prepared(error=error)
        devices = (behavior.get("devices") or {}).get(ref.uid) or ()
        return Prepared(
            tuple(
                Device(
                    each.get("poolName", ""),
                    each.get("deviceName", ""),
                    tuple(each.get("requestNames") or ()),
                    tuple(each.get("cdiDeviceIds") or ()),
                    each.get("shareID"),
                )
                for each in devices
            )
        )

    def state(self) -> Any:
        found: dict[str, Any] = {
            "cache": {
                info.key: {"prepared": info.prepared, "state": _without_nulls(info.tree())}
                for info in self.manager.cache.claims.values()
            }
        }
        try:
            data = json.loads(json.loads(self.text or "")["Data"])
        except (ValueError, KeyError):
            return found
        claims = data.get("ClaimInfoStateList") or ()
        if len(claims) <= 1:
            found["checkpointText"] = self.text
        data = _without_nulls(data)
        if claims:
            ordered = sorted(
                data["ClaimInfoStateList"], key=lambda each: (each["Namespace"], each["ClaimName"])
            )
            data["ClaimInfoStateList"] = ordered
        found["checkpoint"] = data
        if self.calls:
            found["driverCalls"], self.calls = sorted(self.calls), []
        return found

    def step(self, op: Any) -> Any:
        try:
            more = self.carried_out(op)
        except (ManagerError, ApiError) as error:
            if op["op"] == "restart":
                return {"error": str(error)}
            more = {"error": str(error)}
        return {**self.state(), **more}

    def carried_out(self, op: Any) -> Any:
        kind = op["op"]
        if kind == "prepare":
            self.run(self.manager.prepare(self.pods[op["pod"]]))
        elif kind == "unprepare":
            self.run(self.manager.unprepare(self.pods[op["pod"]]))
        elif kind == "getResources":
            pod = self.pods[op["pod"]]
            containers = pod["spec"]["containers"]
            container = next(each for each in containers if each["name"] == op["container"])
            return {"cdiDevices": self.manager.cdi_devices(pod, container)}
        elif kind == "mightNeed":
            return {"result": self.manager.might_need(op["name"])}
        elif kind == "driver":
            self.drivers[op["driver"]] = op["behavior"]
        elif kind == "updateClaim":
            key = _key(op["object"]["metadata"])
            if key not in self.claims:
                raise not_found("resourceclaims", op["object"]["metadata"]["name"])
            self.claims[key] = op["object"]
        elif kind == "deleteClaim":
            if self.claims.pop(_key(op), None) is None:
                raise not_found("resourceclaims", op["name"])
        elif kind == "writeCheckpoint":
            self.text = op["text"]
        else:
            self.manager = self.started()
        return {}


def _key(meta: Any) -> str:
    return f"{meta['namespace']}/{meta['name']}"


def answer(case: Any) -> Any:
    try:
        run = _Run(case)
    except ManagerError as error:
        return {"startError": str(error)}
    return {"initial": run.state(), "ops": [run.step(op) for op in case["ops"]]}
