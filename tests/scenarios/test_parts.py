"""The options --controllers and --without."""

from __future__ import annotations

import pytest

from controlplane.errors import UsageError
from controlplane.scenarios.files import SCENARIO
from controlplane.scenarios.parts import controllers, without
from controlplane.scenarios.plan import plan_of


def test_names_are_taken_with_and_without_their_ending():
    assert controllers("*, -job,cronjob-controller") == ("*", "-job", "cronjob-controller")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"controllers": "jobs"}, "--controllers: 'jobs' is not a controller; known: replicaset-"),
        ({"without": "etcd"}, "--without: 'etcd' is no part; parts are scheduler, controllers, k"),
    ],
)
def test_what_there_is_not_is_refused_before_anything_runs(option, said):
    with pytest.raises(UsageError) as refused:
        plan_of(SCENARIO, files=("examples/shop.yaml",), **option)
    assert str(refused.value).startswith(said)


def test_parts_left_to_others_are_not_there():
    assert without("scheduler,controllers,kubelets") == {
        "schedulers": 0,
        "controllers": False,
        "kubelets": False,
    }
    config = plan_of(SCENARIO, files=("examples/shop.yaml",), without="scheduler").configure()
    assert (config.schedulers, config.controllers) == (0, True)
