"""Systems beside the control plane: their options are refused where the system is absent."""

from __future__ import annotations

import pytest

from controlplane.errors import UsageError
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.engine.systems import SYSTEMS
from tests.scenarios.engine.test_option import SCENARIO

GIVEN = {
    "descheduler_policy": ("descheduler", "p.yaml"),
    "descheduling_interval": ("descheduler", 4.0),
    "descheduler_dry_run": ("descheduler", True),
    "descheduler_plugin": ("descheduler", ("p.py",)),
    "deschedulers": ("descheduler", 2),
    "appgroup_controller": ("scheduler-plugins", True),
    "networktopology_controller": ("scheduler-plugins", True),
    "stages": ("kwok", ("p.yaml",)),
    "enable_crds": ("kwok", ("Stage",)),
    "node_groups": ("cluster-autoscaler", "p.yaml"),
    "cluster_autoscalers": ("cluster-autoscaler", 2),
    "kueue_replicas": ("kueue", 2),
    "kueue_job": ("kueue", ("p.py",)),
}


@pytest.mark.parametrize("key", GIVEN)
def test_an_option_without_its_system_is_refused(key, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("p.yaml", "p.py"):
        (tmp_path / name).touch()
    system, value = GIVEN[key]
    with pytest.raises(UsageError, match=f"^--{key.replace('_', '-')} needs --with {system}$"):
        plan_of(SCENARIO, **{key: value})


@pytest.mark.parametrize("name", [name for name, system in SYSTEMS.items() if system.needed])
def test_a_system_without_an_option_that_it_needs_is_refused(name):
    with pytest.raises(UsageError, match=f"^--with {name} needs --"):
        plan_of(SCENARIO, **{"with": (name,)})
