"""Equal small parts of objects are one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.decoding import decode
from controlplane.api.pod_status import PodCondition, PodStatus
from controlplane.apiserver.schema import codec
from controlplane.sharing import alike as module
from controlplane.sharing.alike import KEPT, LONG, SHORT, alike, alike_list, is_shared

CONDITIONS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(("Ready", "PodScheduled")),
        "status": st.sampled_from(("True", "False")),
    },
    optional={"reason": st.text(max_size=3), "observedGeneration": st.integers(0, 3)},
)


def condition(**more: Any) -> dict[str, Any]:
    return {"type": "Ready", "status": "True", **more}


@given(st.lists(CONDITIONS, max_size=12))
def test_a_part_is_an_equal_one_with_its_keys_in_the_same_order(parts):
    for part in parts:
        found = alike(dict(part))
        assert list(found.items()) == list(part.items())
        assert found is alike(dict(part))


def test_parts_within_count_and_other_order_is_another_part():
    one = alike({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
    assert alike({"running": {"startedAt": "2026-01-01T00:00:00Z"}}) is one
    assert alike({"running": {"startedAt": "2026-01-01T00:00:01Z"}}) is not one
    assert alike({"status": "True", "type": "Ready"}) is not alike(
        {"type": "Ready", "status": "True"}
    )


def test_long_texts_and_lists_are_not_remembered_nor_ever_too_many():
    long = condition(message="x" * (LONG + 1))
    assert alike(dict(long)) is not alike(dict(long))
    assert alike({"list": []}) is not alike({"list": []})
    for number in range(2 * KEPT):
        alike(condition(reason=str(number)))
        assert len(module._known.known) <= KEPT


def test_the_server_keeps_one_condition_for_all_pods_and_it_is_decoded_once():
    def pod() -> dict[str, Any]:
        return {"status": {"conditions": [condition(lastTransitionTime="2026-01-01T00:00:00Z")]}}

    one, other = (codec.decode("io.k8s.api.core.v1.Pod", pod()) for _ in range(2))
    assert one["status"] is not other["status"]
    (first,), (second,) = one["status"]["conditions"], other["status"]["conditions"]
    assert first is second
    assert decode(PodCondition, first) is decode(PodCondition, second)


def test_lists_of_the_same_parts_are_one_and_known_as_such():
    ready, placed = alike(condition()), alike({"type": "PodScheduled", "status": "True"})
    one = alike_list([ready, placed])
    assert alike_list([ready, placed]) is one
    assert alike_list([placed, ready]) is not one
    assert is_shared(one)
    assert not is_shared([ready, placed])
    assert not is_shared([dict(ready), placed])


def test_long_lists_are_not_remembered_nor_ever_too_many():
    long = [alike(condition(reason=str(number))) for number in range(SHORT + 1)]
    assert not is_shared(alike_list(long))
    for number in range(2 * KEPT):
        alike_list([alike(condition(reason=str(number)))])
        assert len(module._lists.known) <= KEPT


def test_a_list_that_pods_share_is_read_once_and_read_right():
    given = alike_list([alike(condition(unknown="x", reason=""))])
    one, other = (
        codec.decode("io.k8s.api.core.v1.Pod", {"status": {"phase": phase, "conditions": given}})
        for phase in ("Pending", "Running")
    )
    alone = codec.decode("io.k8s.api.core.v1.Pod", {"status": {"conditions": [dict(given[0])]}})
    assert one["status"]["conditions"] is other["status"]["conditions"]
    assert one["status"]["conditions"] == alone["status"]["conditions"]
    assert "unknown" not in one["status"]["conditions"][0]


def test_the_view_of_a_list_that_pods_share_is_made_once():
    given = alike_list([alike(condition(reason="View"))])
    one, other = (
        decode(PodStatus, {"phase": phase, "conditions": given}) for phase in ("Pending", "Running")
    )
    alone = decode(PodStatus, {"conditions": [dict(given[0])]})
    assert one.conditions is other.conditions
    assert alone.conditions == one.conditions
