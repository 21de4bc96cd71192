"""A policy file is read strictly: what it says is kept, and what is wrong is told with its field."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from controlplane.descheduler.evictions import Limits
from controlplane.descheduler.policy import load
from controlplane.errors import UsageError

EXAMPLE = Path(__file__).parents[2] / "examples" / "descheduler" / "policy.yaml"


def test_the_example_is_read():
    policy = load(EXAMPLE)
    assert [each["name"] for each in policy.profiles] == ["spread"]
    assert policy.limits == Limits(None, 2, None)
    assert policy.nodes.matches({"any": "label"})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"kind": "Policy"}, 'no kind "Policy" is registered for version "descheduler/v1alpha2"'),
        ({"apiVersion": ""}, "apiVersion: '': expected descheduler/v1alpha2"),
        ({"profile": []}, 'unknown field "profile"'),
        (
            {"maxNoOfPodsToEvictTotal": -1},
            "cannot unmarshal number -1 into Go struct field DeschedulerPolicy.maxNoOfPodsToEvictTotal of type uint",
        ),
        ({"profiles": []}, ""),
        (
            {"profiles": ["a"]},
            "Go struct field DeschedulerPolicy.profiles of type v1alpha2.DeschedulerProfile",
        ),
        ({"nodeSelector": "a in"}, "nodeSelector: "),
        (
            {"metricsProviders": [{"source": "Prometheus"}]},
            "prometheus configuration is required when prometheus source is enabled",
        ),
        (
            {
                "profiles": [
                    {"name": "p", "pluginConfig": [{"name": "PodLifeTime", "args": {"max": 1}}]}
                ]
            },
            "profiles[0].pluginConfig[0].args: failed decoding descheduler's policy config "
            '"policy.yaml": strict decoding error: unknown field "max"',
        ),
        (
            {"profiles": [{"name": "p", "pluginConfig": [{"name": "Other"}]}]},
            "in profile p: plugin Other in pluginConfig not registered",
        ),
        (
            {
                "profiles": [
                    {"name": "p", "plugins": {"balance": {"enabled": ["RemoveDuplicates"]}}}
                ]
            },
            'unable to find "RemoveDuplicates" plugin config',
        ),
        (
            {"profiles": [{"name": "p", "plugins": {"filter": {"enabled": ["PodLifeTime"]}}}]},
            'profile "p" configures filter extension point of non-existing plugins: map[PodLifeTime:{}]',
        ),
    ],
)
def test_a_wrong_policy_is_refused_in_one_line(tmp_path, change, told):
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(EXAMPLE.read_text()), **change}))
    if not told:
        assert load(path).profiles == ()
        return
    with pytest.raises(UsageError) as refused:
        load(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
