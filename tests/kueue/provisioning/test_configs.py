"""The condition Active of AdmissionChecks."""

from __future__ import annotations

import pytest

from controlplane.kueue.provisioning.configs import CheckController, uses
from tests.golden.kueue_server import Server
from tests.kueue.objects import START
from tests.kueue.provisioning.objects import check, config


def active(tree, *configs):
    """The condition Active after a reconcile, None without one."""
    server = Server({"admissionChecks": [tree]})
    for each in configs:
        server.put("ProvisioningRequestConfig", each)
    server.run(CheckController(server, lambda: START).reconcile("check"))
    found = server.get("AdmissionCheck", "", "check").get("status", {}).get("conditions")
    return found and (found[0]["status"], found[0]["reason"], found[0]["message"])


def without_parameters():
    tree = check()
    del tree["spec"]["parameters"]
    return tree


def test_a_check_with_its_configuration_is_active():
    assert active(check(), config()) == ("True", "Active", "The admission check is active")


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (without_parameters(), "missing parameters reference"),
        (check(name="check", apiGroup="bad"),
         'wrong group "bad", expecting "kueue.x-k8s.io": bad parameters reference'),
        (check(kind="Bad"),
         'wrong kind "Bad", expecting "ProvisioningRequestConfig": bad parameters reference'),
        (check(), 'ProvisioningRequestConfig.kueue.x-k8s.io "config" not found'),
    ],
)  # fmt: skip
def test_a_check_says_what_is_wrong_with_its_parameters(tree, text):
    assert active(tree) == ("False", "BadParametersRef", text)


def test_checks_of_other_controllers_are_left_alone():
    assert active(check(controller="other"), config()) is None
    assert not uses(check(controller="other"), "config")


def test_the_condition_is_written_when_its_status_changes():
    tree = check()
    server = Server({"admissionChecks": [tree]})
    controller = CheckController(server, lambda: START)
    server.run(controller.reconcile("check"))
    server.run(controller.reconcile("check"))
    assert len(server.writes) == 1
    server.put("ProvisioningRequestConfig", config())
    server.run(controller.reconcile("check"))
    (found,) = server.get("AdmissionCheck", "", "check")["status"]["conditions"]
    assert found["status"] == "True" and found["observedGeneration"] == 1


def test_a_check_uses_the_configuration_that_it_names_validly():
    assert uses(check(), "config")
    assert not uses(check(), "other")
    assert not uses(check(kind="Bad"), "config")
