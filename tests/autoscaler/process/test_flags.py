"""Flags of cluster-autoscaler: by name or as a command line, refused in one line."""

from __future__ import annotations

import pytest

from controlplane.autoscaler.options import MINUTE, SECOND
from controlplane.autoscaler.process.flags import settings_of
from controlplane.autoscaler.process.settings import Settings
from controlplane.errors import UsageError


def test_no_flags_are_the_defaults():
    assert settings_of(None, "f: flags") == Settings()


def test_flags_by_name_reach_decisions_and_process():
    found = settings_of(
        {
            "scan-interval": "30s",
            "scale-down-unneeded-time": "2m",
            "expander": "priority,least-waste",
            "balance-similar-node-groups": True,
            "cores-total": "0:64",
            "memory-total": "1:100",
            "max-graceful-termination-sec": 60,
            "skip-nodes-with-local-storage": "false",
            "max-node-group-backoff-duration": "10m",
            "memory-difference-ratio": 0.1,
            "expendable-pods-priority-cutoff": -20,
        },
        "f: flags",
    )
    options = found.options
    assert found.scan_interval == 30 * SECOND
    assert found.max_graceful_termination == 60 * SECOND
    assert options.unneeded_time == 2 * MINUTE
    assert options.expanders == ("priority", "least-waste")
    assert options.balance_similar
    assert options.limits == {"cpu": (0, 64), "memory": (1 << 30, 100 << 30)}
    assert not options.deletions.local_storage
    assert options.deletions.system_pods
    assert options.backoff == (5 * MINUTE, 10 * MINUTE, 180 * MINUTE)
    assert options.ratios.memory == 0.1
    assert options.expendable_cutoff == -20


def test_a_list_is_read_as_a_command_line():
    flags = ["--scan-interval=20s", "--balance-similar-node-groups", "--max-nodes-total=7"]
    found = settings_of(flags, "f: flags")
    assert found.scan_interval == 20 * SECOND
    assert (found.options.balance_similar, found.options.max_nodes) == (True, 7)


def test_batches_and_priorities_are_off_unless_asked_for():
    size = "check-capacity-provisioning-request-max-batch-size"
    assert (settings_of({}, "f").request_batch, settings_of({size: 5}, "f").request_batch) == (1, 1)
    on = {"check-capacity-batch-processing": True}
    assert settings_of(on, "f").request_batch == 10
    assert settings_of({**on, size: 5}, "f").request_batch == 5
    assert settings_of({}, "f").drain_priorities == ()
    found = settings_of({"drain-priority-config": "1000:20,-5:60"}, "f")
    assert found.drain_priorities == ((-5, 60), (1000, 20))


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"scan-intervall": "1s"}, "f: no flag 'scan-intervall'; did you mean scan-interval?"),
        ({"nodes": "1:2:g"}, "f: cluster-autoscaler's flag nodes is not supported"),
        ({"scan-interval": 10}, "f.scan-interval: 10: expected a duration such as 10m or 90s"),
        ({"scan-interval": "-1s"}, "f.scan-interval: '-1s': expected a duration"),
        ({"max-nodes-total": -1}, "f.max-nodes-total: -1: expected a whole number, 0 or more"),
        ({"scale-down-enabled": "perhaps"}, "'perhaps': expected true or false"),
        ({"scale-down-utilization-threshold": "nan"}, "'nan': expected a number, 0 or more"),
        ({"expander": "cheap"}, "f.expander: 'cheap': expected least-waste, "),
        ({"drain-priority-config": "1:2,1:3"}, "expected <priority>:<seconds>, ... with each"),
        ({"drain-priority-config": "high:2"}, "f.drain-priority-config: 'high:2': expected"),
        (
            {"drain-priority-config": "0:60", "max-graceful-termination-sec": 9},
            "f.drain-priority-config: expected it without max-graceful-termination-sec",
        ),
        ({"check-capacity-batch-processing": "on"}, "'on': expected true or false"),
        (
            {
                "check-capacity-batch-processing": True,
                "check-capacity-provisioning-request-max-batch-size": 0,
            },
            "max-batch-size: 0: expected a whole number, 1 or more",
        ),
        ({"expander": "random,random"}, "expected each expander once"),
        ({"cores-total": "9:1"}, "f.cores-total: '9:1': expected <min>:<max>"),
        ("--v=4", "f: '--v=4': expected flags by name, or a list of texts"),
        ({"namespace": ""}, "f.namespace: '': expected text"),
    ],
)
def test_a_wrong_flag_is_refused_by_name(flags, text):
    with pytest.raises(UsageError) as error:
        settings_of(flags, "f")
    assert text in str(error.value)
    assert "\n" not in str(error.value)
