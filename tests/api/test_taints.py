"""Which toleration covers a taint, and that very many are not all looked at."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.api import taints
from controlplane.api.constraints import Taint, Toleration
from controlplane.api.taints import MANY, first_tolerating, tolerates, untolerated

KEYS = st.sampled_from(["", "a", "b"])
EFFECTS = st.sampled_from(["", "NoSchedule", "NoExecute"])
VALUES = st.sampled_from(["", "1", "2"])
TOLERATIONS = st.builds(
    Toleration,
    key=KEYS,
    operator=st.sampled_from(["", "Equal", "Exists", "Gt", "Lt"]),
    value=VALUES,
    effect=EFFECTS,
    toleration_seconds=st.sampled_from([None, 1, 2]),
)


@given(
    st.lists(TOLERATIONS, max_size=8),
    st.builds(Taint, key=st.sampled_from(["a", "b", "c"]), value=VALUES, effect=EFFECTS),
    st.booleans(),
)
def test_the_first_of_very_many_is_that_of_all(some, taint, comparison):
    never = Toleration(key="z", operator="Exists")
    given_ = (*[never] * (MANY + 1), *some)
    plain = next((each for each in some if tolerates(each, taint, comparison=comparison)), None)
    assert first_tolerating(given_, taint, comparison=comparison) is plain
    assert first_tolerating(some, taint, comparison=comparison) is plain


def test_taints_and_tolerations_by_the_thousand_are_not_all_compared(monkeypatch):
    count = 3_000
    asked = 0
    plain = taints.tolerates

    def counting(toleration, taint, *, comparison=False):
        nonlocal asked
        asked += 1
        return plain(toleration, taint, comparison=comparison)

    monkeypatch.setattr(taints, "tolerates", counting)
    wanted = [Taint(key=f"k{n}", value="v", effect="NoSchedule") for n in range(count)]
    given_ = [Toleration(key=f"k{n}", operator="Equal", value="v") for n in range(count)]
    assert untolerated(wanted, given_) is None
    assert asked == count
