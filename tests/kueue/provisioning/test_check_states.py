"""States of a check after the conditions of its request."""

from __future__ import annotations

import pytest

from controlplane.kueue.provisioning.check_states import (
    follow,
    next_attempt,
    pod_set_updates,
    set_inactive,
    set_not_needed,
)
from tests.kueue.provisioning.objects import CLASS, config, request, reserved, state


def followed(*conditions, known=None, work=None, limit=3, name="work-check-1"):
    """The check as it is then, and whether it has to be written."""
    check = known or state()
    changed = follow(check, work or reserved(), config(limit=limit), request(name, *conditions))
    return check["state"], check["message"], changed


FAILED = ("Failed", "no nodes")
EXPIRED = ("BookingExpired", "too late")
REVOKED = ("CapacityRevoked", "gone")
PROVISIONED = ("Provisioned", "there")
ACCEPTED = ("Accepted", "seen")


def test_a_request_without_conditions_leaves_the_check_pending_and_drops_an_old_message():
    assert followed() == ("Pending", "", False)
    assert followed(known=state(message="Error creating")) == ("Pending", "", True)


def test_a_request_that_is_accepted_passes_its_forecast_on():
    assert followed(ACCEPTED) == ("Pending", "", False)
    asked = request("work-check-1", ACCEPTED)
    asked["status"]["conditions"].append(
        {"type": "Provisioned", "status": "False", "message": "in an hour"}
    )
    check = state()
    assert follow(check, reserved(), config(), asked)
    assert (check["state"], check["message"]) == ("Pending", "in an hour")
    assert not follow(check, reserved(), config(), asked)


def test_a_provisioned_request_makes_the_check_ready_once():
    assert followed(ACCEPTED, PROVISIONED) == ("Ready", "there", True)
    known = state(value="Ready", message="before")
    assert followed(ACCEPTED, PROVISIONED, known=known) == ("Ready", "before", False)


@pytest.mark.parametrize(
    ("condition", "words"),
    [(FAILED, "Retrying after failure: no nodes"), (EXPIRED, "Retrying after booking expired: too late")],
)  # fmt: skip
def test_a_request_that_is_over_is_tried_again_after_a_backoff_that_doubles(condition, words):
    check = state()
    assert followed(PROVISIONED, condition, known=check) == ("Retry", words, True)
    assert check["requeueAfterSeconds"] == 60
    later = state(retryCount=2)
    assert followed(condition, known=later, name="work-check-3") == ("Retry", words, True)
    assert later["requeueAfterSeconds"] == 240
    capped = state(retryCount=9)
    followed(condition, known=capped, name="work-check-10", limit=20)
    assert capped["requeueAfterSeconds"] == 1800


def test_a_request_has_one_retry():
    known = state(retryCount=1, message="Retrying after failure: no nodes")
    assert followed(FAILED, known=known) == ("Pending", "Retrying after failure: no nodes", False)
    assert "requeueAfterSeconds" not in known


@pytest.mark.parametrize("condition", [FAILED, EXPIRED])
def test_the_last_attempt_rejects_the_workload(condition):
    state_now, text, changed = followed(condition, limit=1, name="work-check-2")
    assert (state_now, text, changed) == ("Rejected", condition[1], True)
    assert followed(condition, limit=0)[0] == "Rejected"


def test_an_expired_booking_does_not_concern_an_admitted_workload():
    admitted = reserved(is_admitted=True)
    ready = state(value="Ready", message="there")
    assert followed(PROVISIONED, EXPIRED, known=ready, work=admitted) == ("Ready", "there", False)


def test_revoked_capacity_rejects_a_workload_that_is_active():
    admitted = reserved(is_admitted=True)
    ready = state(value="Ready", message="there")
    assert followed(PROVISIONED, REVOKED, EXPIRED, known=ready, work=admitted) == (
        "Rejected", "gone", True,
    )  # fmt: skip
    admitted["spec"]["active"] = False
    assert followed(PROVISIONED, REVOKED, work=admitted) == ("Pending", "", False)


def test_a_failure_goes_before_other_conditions():
    assert followed(PROVISIONED, REVOKED, FAILED)[0] == "Retry"


def test_a_check_without_configuration_is_not_active():
    check = state(value="Ready")
    assert set_inactive(check)
    assert (check["state"], check["message"]) == ("Pending", "the check is not active")
    assert not set_inactive(check)


def test_a_request_that_is_not_needed_makes_the_check_ready():
    check = state(podSetUpdates=[{"name": "main"}])
    assert set_not_needed(check)
    assert check["message"] == "the provisioning request is not needed"
    assert check["state"] == "Ready" and "podSetUpdates" not in check
    assert not set_not_needed(check)


def test_pods_get_the_request_and_the_node_labels_of_its_details():
    asked = request()
    asked["status"]["provisioningClassDetails"] = {"Group": "g1"}
    wanted = [
        {"key": "pool", "valueFromProvisioningClassDetail": "Group"},
        {"key": "zone", "valueFromProvisioningClassDetail": "Missing"},
    ]
    notes = {
        "autoscaling.x-k8s.io/consume-provisioning-request": "work-check-1",
        "autoscaling.x-k8s.io/provisioning-class-name": CLASS,
    }
    labelled = config(podSetUpdates={"nodeSelector": wanted})
    assert pod_set_updates(reserved(), labelled, asked) == [
        {"name": "main", "annotations": notes, "nodeSelector": {"pool": "g1"}}
    ]
    assert pod_set_updates(reserved(), config(), asked) == [{"name": "main", "annotations": notes}]


@pytest.mark.parametrize(
    ("check", "asked", "attempt"),
    [
        (state(), None, 1),
        (state(retryCount=2), None, 3),  # the eviction deleted the requests
        (state(), request(), None),
        (state(), request("work-check-2", FAILED), 3),
        (state(value="Retry"), request("work-check-2", FAILED), None),
        (state(value="Rejected"), request("work-check-2", FAILED), None),
        (state(), request("work-check-1", PROVISIONED, EXPIRED), 2),
    ],
)
def test_the_next_attempt_follows_the_last_one_that_is_over(check, asked, attempt):
    assert next_attempt(check, reserved(), asked) == attempt


def test_an_admitted_workload_asks_for_no_more_when_its_booking_expires():
    over = request("work-check-1", PROVISIONED, EXPIRED)
    assert next_attempt(state(), reserved(is_admitted=True), over) is None
