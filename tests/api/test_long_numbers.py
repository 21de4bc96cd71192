"""Texts of more digits than Python reads are numbers out of range, wherever they come from."""

import json

import pytest

from controlplane.api.durations import DurationError, parse_duration
from controlplane.controllers.common.int_or_percent import BadIntOrPercent, scaled_value
from controlplane.controllers.storage.volume.topology import spread
from controlplane.errors import UsageError
from controlplane.kubelet.cm.go_text import GoTextError, atoi
from controlplane.kubelet.machine import machine_of_text
from controlplane.kubelet.pod.container_runtime import seconds
from controlplane.scenarios.inputs.manifests import plain_scalar
from tests.apiserver.world import STRATEGIC, World, pod

LONG = "9" * 5000


@pytest.mark.parametrize("text", [f"{LONG}h", f"{LONG}ns", "9223372036854775808ns", "2562048h"])
def test_a_duration_of_more_than_64_bits_is_none(text):
    with pytest.raises(DurationError):
        parse_duration(text)


def test_digits_after_the_point_have_no_end():
    assert parse_duration(f"0.{LONG}s") == 999_999_999
    assert parse_duration(f"{'0' * 5000}1s") == 10**9
    assert parse_duration("-9223372036854775808ns") == -(1 << 63)


def test_a_percentage_out_of_range_is_told():
    with pytest.raises(BadIntOrPercent, match="value out of range"):
        scaled_value(f"{LONG}%", 3, round_up=True)


def test_a_claim_with_a_long_number_is_spread_by_its_whole_name():
    assert spread(f"a-{LONG}") == spread(f"a-{LONG}")
    assert spread(f"a-b-{LONG}") != spread("a-b-1")


def test_what_no_kubelet_reads_is_refused_or_ignored():
    assert seconds(LONG) is None
    with pytest.raises(GoTextError, match="out of range"):
        atoi(LONG)
    with pytest.raises(UsageError, match="expected a number"):
        machine_of_text(f"sockets={LONG}")


def test_yaml_leaves_a_number_that_none_is_a_text():
    assert plain_scalar(LONG) == LONG


BODIES = {
    "version of a new object": (
        "configmaps",
        {"metadata": {"name": "a", "resourceVersion": LONG}},
        "",
        201,
    ),
    "version of other digits": (
        "configmaps",
        {"metadata": {"name": "b", "resourceVersion": "²"}},
        "",
        201,
    ),
    "disruptions": (
        "poddisruptionbudgets",
        {"metadata": {"name": "c"}, "spec": {"maxUnavailable": f"{LONG}%", "selector": {}}},
        "policy",
        422,
    ),
    "schedule": (
        "cronjobs",
        {
            "metadata": {"name": "d"},
            "spec": {
                "schedule": f"@every {LONG}h",
                "jobTemplate": {
                    "spec": {
                        "template": {
                            "spec": {
                                "restartPolicy": "Never",
                                "containers": [{"name": "c", "image": "i"}],
                            }
                        }
                    }
                },
            },
        },
        "batch",
        422,
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_with_a_long_number_is_answered(name):
    resource, body, group, code = BODIES[name]
    assert World().create(resource, json.loads(json.dumps(body)), group=group).code == code


@pytest.mark.parametrize("text", [LONG, "²", "٣"])
def test_a_note_of_a_template_that_is_no_number_is_none(text):
    labels = {"app": "a"}
    body = {
        "metadata": {
            "name": "d",
            "annotations": {"deprecated.daemonset.template.generation": text},
        },
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod("x")["spec"]},
        },
    }
    world = World()
    assert world.create("daemonsets", body, group="apps").code == 201
    surge = {"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": f"{LONG}%"}}}}
    answer = world.patch("daemonsets", "d", surge, media=STRATEGIC, group="apps")
    assert answer.code == 422
    assert "must not be greater than 100%" in answer.tree["message"]
