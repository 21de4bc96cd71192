"""Requests, templates and states of checks of one Workload."""

from __future__ import annotations

import pytest

from controlplane.client.errors import ApiError
from controlplane.kueue.controllers.effects import Create, ReconcileError
from controlplane.kueue.provisioning.controller import parameters_of
from controlplane.kueue.provisioning.templates import handed_over, owned_by
from tests.kueue.objects import evicted, pod_set, workload
from tests.kueue.provisioning.objects import World, check, config, request, reserved, state

FAILED = ("Failed", "no nodes")
CREATED = ("ProvisioningRequestCreated", 'Created ProvisioningRequest: "work-check-1"')


def template(world, name="ppt-work-check-1-main"):
    return world.get("PodTemplate", "default", name)


def refused(kind, code=403, reason="Forbidden"):
    def refuse(effect):
        if isinstance(effect, Create) and effect.kind == kind:
            return ApiError(code, {"reason": reason, "message": "not allowed"})
        return None

    return refuse


def test_a_workload_with_quota_gets_a_request_with_its_templates():
    world = World(reserved(state(), state("other")), configs=[config(parameters={"a": "b"})])
    world.reconciled()
    made = world.get("ProvisioningRequest", "default", "work-check-1")
    assert made["spec"] == {
        "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
        "parameters": {"a": "b"},
        "podSets": [{"podTemplateRef": {"name": "ppt-work-check-1-main"}, "count": 3}],
    }
    assert made["metadata"]["labels"] == {"kueue.x-k8s.io/managed": "true"}
    assert made["metadata"]["ownerReferences"] == [owned_by("Workload", world.work)]
    assert template(world)["template"]["spec"]["nodeSelector"] == {"pool": "a"}
    assert template(world)["metadata"]["ownerReferences"] == [owned_by("ProvisioningRequest", made)]
    assert world.told == [CREATED]
    assert world.states["check"]["state"] == "Pending"


def test_templates_have_requests_for_what_has_only_limits():
    container = {"name": "c", "resources": {"limits": {"gpu": "1"}, "requests": {"cpu": "1"}}}
    work = reserved(state(), pod_sets=[pod_set(spec={"containers": [container]})])
    (made,) = template(World(work).reconciled())["template"]["spec"]["containers"]
    assert made["resources"]["requests"] == {"cpu": "1", "gpu": "1"}


def test_annotations_of_the_workload_are_parameters():
    work = reserved(state())
    work["metadata"]["annotations"] = {"provreq.kueue.x-k8s.io/a": "own", "other": "x"}
    assert parameters_of(work, config(parameters={"a": "b", "c": "d"})) == {"a": "own", "c": "d"}


def test_a_workload_without_quota_gets_nothing():
    world = World(workload("work")).reconciled()
    assert world.writes == []
    assert World(reserved(state()), checks=[check(controller="other")]).reconciled().writes == []


def test_nothing_is_done_twice():
    world = World(reserved(state())).reconciled()
    before = len(world.writes)
    assert len(world.reconciled().writes) == before


def test_a_provisioned_request_is_told_with_what_pods_need():
    world = World(reserved(state(), state("other")))
    world.put("ProvisioningRequest", request("work-check-1", ("Provisioned", "there")))
    world.reconciled()
    assert world.states["check"]["state"] == "Ready"
    assert [each["name"] for each in world.states["check"]["podSetUpdates"]] == ["main"]
    assert world.states["other"]["state"] == "Pending"
    text = "Admission check check updated state from Pending to Ready with message: there"
    assert world.told == [("AdmissionCheckUpdated", text)]
    assert world.requests == ["work-check-1"]
    body = world.writes[0].body
    assert world.writes[0].manager == "kueue.x-k8s.io/provisioning-request"
    assert set(body["status"]) == {"admissionChecks"}


def test_a_failed_request_is_kept_until_the_eviction_and_the_next_has_another_name():
    world = World(reserved(state()))
    world.put("ProvisioningRequest", request("work-check-1", FAILED))
    world.reconciled()
    assert world.states["check"]["state"] == "Retry"
    assert world.requests == ["work-check-1"]
    world.put("Workload", evicted(world.work, "AdmissionCheck"))
    assert world.reconciled().requests == []
    world.put("Workload", reserved(state(retryCount=1)))
    assert world.reconciled().requests == ["work-check-2"]


def test_without_the_clean_up_a_failed_request_stays_and_the_last_one_counts():
    world = World(
        evicted(reserved(state()), "AdmissionCheck"), CleanupProvisioningRequestsOnEviction=False
    )
    world.put("ProvisioningRequest", request("work-check-1", FAILED))
    assert world.reconciled().requests == ["work-check-1"]
    assert world.writes == []  # an evicted Workload goes on with nothing
    world.put("Workload", reserved(state(retryCount=1)))
    assert world.reconciled().requests == ["work-check-1", "work-check-2"]
    assert world.reconciled().requests == ["work-check-2"]


def test_requests_of_a_finished_workload_are_deleted():
    work = reserved(state())
    work["status"]["conditions"].append({"type": "Finished", "status": "True"})
    world = World(work)
    world.put("ProvisioningRequest", request())
    assert world.reconciled().requests == []


@pytest.mark.parametrize(
    "stale",
    [
        {"provisioningClassName": "other"},
        {"parameters": {"a": "other"}},
    ],
)
def test_a_request_that_is_not_as_configured_is_replaced(stale):
    world = World(reserved(state()), configs=[config(parameters={"a": "b"})])
    world.put("ProvisioningRequest", request(**{"parameters": {"a": "b", "more": "x"}, **stale}))
    world.put("ProvisioningRequest", request("work-gone-1"))
    world.reconciled()
    assert world.requests == ["work-check-1"]
    made = world.get("ProvisioningRequest", "default", "work-check-1")
    assert made["spec"]["parameters"] == {"a": "b"}


def test_a_request_may_have_more_parameters_than_the_configuration():
    world = World(reserved(state()), configs=[config(parameters={"a": "b"})])
    asked = request(parameters={"a": "b", "more": "x"})
    world.put("ProvisioningRequest", asked)
    world.reconciled()
    assert world.get("ProvisioningRequest", "default", "work-check-1") is asked


def test_a_check_that_needs_no_request_is_ready_and_loses_the_one_there_is():
    world = World(reserved(state()), configs=[config(managedResources=["gpu"])])
    world.put("ProvisioningRequest", request())
    world.reconciled()
    assert world.states["check"]["state"] == "Ready"
    assert world.requests == []


def test_a_check_whose_configuration_is_gone_is_not_active():
    world = World(reserved(state(value="Ready")), configs=[]).reconciled()
    assert world.states["check"]["message"] == "the check is not active"
    assert world.states["check"]["state"] == "Pending"


def test_a_check_with_wrong_parameters_is_tried_again():
    with pytest.raises(ReconcileError, match="bad parameters reference"):
        World(reserved(state()), checks=[check(kind="Bad")]).reconciled()


def test_states_are_written_only_when_every_check_has_its_request():
    world = World(reserved(state("a"), state("b")), checks=[check("a"), check("b")])
    world.put("ProvisioningRequest", request("work-a-1", ("Provisioned", "there")))
    world.reconciled()
    assert world.states["a"]["state"] == "Pending"
    assert world.requests == ["work-a-1", "work-b-1"]
    assert world.reconciled().states["a"]["state"] == "Ready"


@pytest.mark.parametrize(
    ("kind", "name"),
    [("PodTemplate", "ppt-work-check-1-main"), ("ProvisioningRequest", "work-check-1")],
)
def test_a_refused_object_is_told_in_the_check_and_tried_again(kind, name):
    world = World(reserved(state()))
    with pytest.raises(ApiError):
        world.reconciled(refused(kind))
    text = f'Error creating {kind} "{name}": not allowed'
    assert world.states["check"]["message"] == text
    assert world.told == [("FailedCreate", text)]


def test_an_object_that_the_cache_does_not_show_yet_is_not_told():
    world = World(reserved(state()))
    with pytest.raises(ApiError):
        world.reconciled(refused("ProvisioningRequest", 409, "AlreadyExists"))
    assert world.told == []
    assert world.states["check"]["message"] == ""


def test_a_template_without_its_flavor_is_told():
    world = World(reserved(state()))
    del world.objects["ResourceFlavor"]
    with pytest.raises(ReconcileError):
        world.reconciled()
    assert 'resourceflavors.kueue.x-k8s.io "default" not found' in world.states["check"]["message"]


def test_a_template_goes_from_the_workload_to_the_request():
    work, asked = reserved(state()), request()
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}

    def owners(*references):
        metadata = {"name": "t", "namespace": "default", "ownerReferences": list(references)}
        changed = handed_over({"metadata": metadata}, work, asked)
        return changed and changed["metadata"]["ownerReferences"]

    mine, theirs = owned_by("Workload", work), owned_by("ProvisioningRequest", asked)
    assert owners(other, mine) == [other, theirs]
    assert owners() == [theirs]
    assert owners(theirs) is None
    assert owners({**theirs, "uid": "earlier"}) == [theirs]
    with pytest.raises(ReconcileError, match="already owned by another Job controller j"):
        owners({**mine, "kind": "Job", "name": "j", "uid": "j"})
