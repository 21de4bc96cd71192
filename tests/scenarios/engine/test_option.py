"""Options are declared once: what a declaration accepts, and what is refused."""

from __future__ import annotations

import pytest

from controlplane.errors import UsageError
from controlplane.scenarios import Option, Scenario
from controlplane.scenarios.engine.common_options import COMMON
from controlplane.scenarios.engine.plan import plan_of, plan_of_header


async def nothing(user):
    pass


OWN = (
    Option("size", type=int, low=1, high=9, default=3),
    Option("ratio", type=float, default=0.5),
    Option("hard", type=bool, default=False),
    Option("shape", choices=("round", "square"), default="round"),
    Option("names", many=True, default=()),
)
SCENARIO = Scenario("mine", workload=nothing, options=OWN, defaults={"nodes": 4, "node_cpu": "3"})


def test_defaults_are_the_declarations_unless_the_scenario_has_its_own():
    plan = plan_of(SCENARIO)
    assert [plan[option.key] for option in OWN] == [3, 0.5, False, "round", ()]
    assert (plan["nodes"], plan["node_cpu"], plan["node_memory"]) == (4, "3", "32Gi")
    assert len(plan.configure().nodes) == 4


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"size": 10}, "--size 10: expected at most 9"),
        ({"size": 0}, "--size 0: expected at least 1"),
        ({"size": "3"}, "--size '3': expected a whole number"),
        ({"size": True}, "--size True: expected a whole number"),
        ({"hard": 1}, "--hard 1: expected true or false"),
        ({"shape": "oval"}, "--shape 'oval': expected round or square"),
        ({"names": "one"}, "--names 'one': expected several values"),
        ({"node_cpu": "big"}, "--node-cpu 'big': expected a quantity, as 8, 500m or 32Gi"),
        ({"colour": "red"}, "scenario 'mine' has no option 'colour'; it has size, ratio"),
        ({"release": "9.9"}, "release '9.9': expected 1.0 to"),
        ({"feature_gates": ["Nope=true"]}, "Nope"),
        ({"kubelet_config": "a\0b"}, "--kubelet-config 'a\\x00b': expected text without NUL"),
        ({"ratio": float("nan")}, "--ratio nan: expected a number"),
        ({"until": float("inf")}, "--until inf: expected a number"),
        ({"until": 1e300}, "--until 1e+300: expected a number"),
        ({"cache_lag": 1}, "--cache-lag needs --apiservers 2 or more"),
    ],
)
def test_a_wrong_value_is_one_line(asked, message):
    with pytest.raises(UsageError) as caught:
        plan_of(SCENARIO, **asked).configure()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_header_gives_the_plan_back():
    asked = {"size": 5, "ratio": 2, "hard": True, "names": ["a", "b"], "without_fix": ["138324"]}
    plan = plan_of(SCENARIO, release="1.33", apiservers=2, **asked)
    again = plan_of_header(SCENARIO, plan.header())
    told = {"without_fix", "fix"}
    assert {key: value for key, value in again.options.items() if key not in told} == {
        key: value for key, value in plan.options.items() if key not in told
    }
    assert again.gates.to_header() == plan.gates.to_header()
    assert again.header() == plan.header()


def test_every_common_option_says_what_it_is_for():
    for option in COMMON:
        assert option.help.endswith("."), option.name
        assert option.check(option.default) == option.default
