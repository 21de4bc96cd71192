"""The options --controllers, --admission and --without."""

from __future__ import annotations

import pytest

from controlplane.errors import UsageError
from controlplane.scenarios.engine.option_effects import admission, controllers, without
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.manifest_run import SCENARIO


def test_names_are_taken_with_and_without_their_ending():
    assert controllers("*, -job,cronjob-controller") == ("*", "-job", "cronjob-controller")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"controllers": "jobs"}, "--controllers: no controller 'jobs'; did you mean job"),
        (
            {"admission": "*,-Prio"},
            "--admission: no admission plugin 'Prio'; did you mean Priority",
        ),
        ({"without": "etcd"}, "--without: no part 'etcd'; known: scheduler, controllers, k"),
    ],
)
def test_what_there_is_not_is_refused_before_anything_runs(option, said):
    with pytest.raises(UsageError) as refused:
        plan_of(SCENARIO, files=("examples/shop.yaml",), **option)
    assert str(refused.value).startswith(said)


def test_admission_plugins_are_left_out_from_the_first_look_at_the_files_on(tmp_path):
    assert admission("*,-Priority") == ("Priority",)
    assert "Priority" not in admission("Priority")
    file = tmp_path / "pod.yaml"
    file.write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: a},"
        " spec: {priorityClassName: gold, containers: [{name: a, image: b}]}}"
    )
    with pytest.raises(UsageError, match="no PriorityClass with name gold"):
        plan_of(SCENARIO, files=(str(file),))
    plan = plan_of(SCENARIO, files=(str(file),), admission="*,-Priority")
    assert plan.configure().disabled_admission == ("Priority",)


def test_parts_left_to_others_are_not_there():
    assert without("scheduler,controllers,kubelets") == {
        "schedulers": 0,
        "controllers": False,
        "kubelets": False,
    }
    config = plan_of(SCENARIO, files=("examples/shop.yaml",), without="scheduler").configure()
    assert (config.schedulers, config.controllers) == (0, True)


def test_controllers_of_modules_run_beside_those_of_systems(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from controlplane.controllers import Controller\n\n"
        "class Mine(Controller):\n    name = 'mine'\n"
    )
    given = {"own_controller": (str(file),), "with": ("kueue",)}
    config = plan_of(SCENARIO, files=("examples/shop.yaml",), **given).configure()
    assert [each.name for each in config.own_controllers] == ["mine", "kueue"]
    twice = (str(file), str(file))
    with pytest.raises(UsageError, match="a controller called mine exists already"):
        plan_of(SCENARIO, files=("examples/shop.yaml",), own_controller=twice)
    file.write_text("")
    with pytest.raises(UsageError, match="defines no controller with a name"):
        plan_of(SCENARIO, files=("examples/shop.yaml",), own_controller=(str(file),))
