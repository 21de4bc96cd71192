"""A pod and a claim that is being unprepared for another one (fix gate 140527)."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.decisions import Write
from controlplane.kubelet.cm.dra.claim_info import ClaimCache, ClaimInfo
from controlplane.kubelet.cm.dra.manager import ClaimError, DRAManager
from controlplane.kubelet.cm.dra.messages import (
    UNPREPARE,
    ClaimRef,
    DriverCall,
    DriverFailed,
    Prepared,
    Response,
)

REF = ClaimRef("ns", "c", "c-1")


def pod(uid: str) -> Any:
    meta = {"namespace": "ns", "name": uid, "uid": uid}
    return {
        "metadata": meta,
        "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]},
    }


CLAIM = {
    "metadata": {"namespace": "ns", "name": "c", "uid": "c-1"},
    "status": {
        "allocation": {"devices": {"results": [{"driver": "d", "pool": "p", "device": "x"}]}},
        "reservedFor": [{"resource": "pods", "name": "new", "uid": "new"}],
    },
}


class Answer:
    tree = CLAIM


def manager(*, fixed: bool) -> DRAManager:
    made = DRAManager(ClaimCache(), lambda _driver: True, refuses_ending=fixed)
    made.cache.put(ClaimInfo(REF, ("old",), {"d": ()}, prepared=True))
    return made


def prepare(of: DRAManager) -> None:
    operation = of.prepare(pod("new"))
    effect: Any = next(operation)
    while True:
        try:
            answer = None if isinstance(effect, Write) else Answer()
            effect = operation.send(answer)
        except StopIteration:
            return


def until_the_driver_is_called(of: DRAManager) -> Any:
    operation = of.unprepare(pod("old"))
    effect = next(operation)
    assert isinstance(effect, DriverCall)
    assert effect.method == UNPREPARE
    return operation


def test_a_pod_is_refused_a_claim_that_is_being_unprepared():
    found = manager(fixed=True)
    operation = until_the_driver_is_called(found)
    with pytest.raises(ClaimError, match="ResourceClaim ns/c is being unprepared"):
        prepare(found)
    operation.send(Response({"c-1": Prepared()}))
    assert found.cache.claims == {}


def test_before_the_fix_it_joins_an_entry_that_goes():
    found = manager(fixed=False)
    operation = until_the_driver_is_called(found)
    prepare(found)
    operation.send(Response({"c-1": Prepared()}))
    assert found.cache.claims == {}


def test_a_claim_that_a_driver_did_not_unprepare_may_be_used_again():
    found = manager(fixed=True)
    operation = until_the_driver_is_called(found)
    with pytest.raises(ClaimError):
        operation.throw(DriverFailed("not now"))
    prepare(found)
    (info,) = found.cache.claims.values()
    assert info.pods == ("old", "new")
