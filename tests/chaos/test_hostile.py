"""Bodies made to take long are answered as upstream answers them, or refused; never a failure."""

import pytest

from tests.chaos.hostile import hostile, prepared

# One of each kind; all of them, with their times: python -m bench.bench_hostile
TRIED = (
    "json: 3 MiB of [",
    "json: more than 3 MiB",
    "yaml: 3 MiB of [",
    "yaml: more than 3 MiB",
    "yaml: - in one line",
    "yaml: merge keys",
    "yaml: directives",
    "protobuf: levels",
    "protobuf: a length of 2^63",
    "20,000 owners, all the same",
    "900 levels of managed fields",
    "pod: 20,000 equal spread constraints",
    "pod: iqn",
    "pod: a field path",
    "pod: an image",
    "pod: a quantity of 1,000,000 digits",
    "pod: a sysctl",
    "custom: a set of 40,000",
    "custom: a map of 40,000 equal ones",
    "custom: a pattern that backtracks",
    "custom: patterns that backtrack",
    "custom: a rule whose pattern backtracks",
    "custom: too many levels",
    "merge: 900 levels, thing",
    "strategic: 900 levels, pod",
    "json: 900 levels, thing",
    "apply: 900 levels, thing",
    "apply: 400 levels, thing",
    "merge: 400 levels, thing",
    "json patch: 10,001 operations",
    "json patch: doubling copies",
    "json patch: nesting adds",
    "definition: an expression of 100,000 brackets",
    "definition: an expression of 5,000 fields",
    "definition: an expression of 20,000 terms",
    "definition: a pattern of 100,000 brackets",
    "definition: 300 versions",
    "strategic: 40,000 deleted finalizers",
    "field selector: dashes",
    "label selector: brackets",
    "continue=W...",
    "resourceVersion=9...",
)


@pytest.fixture(scope="module")
def world():
    return prepared()


@pytest.fixture(scope="module")
def known():
    return {request.name: request for request in hostile()}


@pytest.mark.parametrize("name", TRIED)
def test_it_is_answered(world, known, name):
    found = known[name].send(world)
    assert found.code in known[name].codes, found.tree
