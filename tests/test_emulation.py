"""What a recording says of the settings it was made with."""

from __future__ import annotations

from pathlib import Path

from controlplane.emulation import SOMETIMES, Emulation, Settings

EXAMPLES = Path(__file__).parents[1] / "examples"


def header(**settings):
    return Emulation.prepare(Settings((str(EXAMPLES / "shop.yaml"),), **settings)).header


def test_every_setting_that_only_some_recordings_tell_is_compared_in_a_replay():
    everything = header(
        explain_scheduling=True,
        scheduler_config=EXAMPLES / "scheduler_config.yaml",
        scheduler_plugins=(str(EXAMPLES / "scheduler_plugin.py"),),
        apiservers=2,
        cache_lag=0.5,
        schedulers=2,
        controller_managers=2,
        feature_gates=("SchedulerAsyncPreemption=false",),
    )
    assert set(everything) - set(header()) == set(SOMETIMES)
