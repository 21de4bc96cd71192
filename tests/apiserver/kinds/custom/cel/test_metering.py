import pytest

from controlplane.apiserver.kinds.custom.cel import CelError
from controlplane.apiserver.kinds.custom.cel.metering import CANCELLED, METER, Meter
from tests.apiserver.kinds.custom.cel.measured import MEASURED, program, variables

RUNS = [(rule, cost, said) for rule, _, cost, said in MEASURED["rules"]]


@pytest.mark.parametrize(("rule", "cost", "said"), RUNS)
def test_a_run_costs_and_comes_to_what_upstream_says(rule, cost, said):
    meter = Meter()
    try:
        found = str(program(rule).run({**variables(), METER: meter})).lower()
    except CelError as error:
        found = str(error)
    assert (meter.spent, found) == (cost, said)


def test_a_run_ends_when_it_has_cost_more_than_its_limit():
    meter = Meter(limit=5)
    with pytest.raises(CelError, match=CANCELLED):
        program("self.hosts.all(x, x != '')").run({**variables(), METER: meter})
    assert meter.spent == 6


def test_nothing_absorbs_the_end_of_a_run():
    with pytest.raises(CelError, match=CANCELLED):
        program("self.hosts.all(x, x == '') || true").run({**variables(), METER: Meter(limit=5)})


def test_a_call_whose_cost_cannot_be_told_ends_the_run():
    """Upstream's measure of `distinct` takes the failure of its list for a list."""
    scope = {**variables(), "self": {}}
    with pytest.raises(CelError, match="internal error: interface conversion"):
        program("self.hosts.distinct().size() > 0 || true").run(scope)
