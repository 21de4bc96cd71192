"""A frozen class that is filled as an open one: the same signature, the same values, and frozen in the end."""

import attrs
import pytest

from controlplane.api.pod import PodSpec
from controlplane.api.request import Request
from controlplane.sharing.quick_init import quick_init


@quick_init
@attrs.frozen(weakref_slot=False)
class Sample:
    first: int
    second: str = "two"
    third: list[int] = attrs.field(factory=list)


def test_values_and_defaults_stand_where_attrs_puts_them() -> None:
    assert Sample(1) == Sample(first=1, second="two", third=[])
    assert Sample(1, third=[3]).third == [3]
    assert attrs.evolve(Sample(1), second="2") == Sample(1, "2")
    assert repr(Sample(1)) == "Sample(first=1, second='two', third=[])"


def test_each_instance_has_a_default_of_its_own() -> None:
    assert Sample(1).third is not Sample(1).third


def test_instances_are_frozen_and_of_their_class() -> None:
    made = Sample(1)
    assert type(made) is Sample
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        made.first = 2  # type: ignore[misc]


def test_a_missing_value_is_refused() -> None:
    with pytest.raises(TypeError, match="first"):
        Sample()  # type: ignore[call-arg]


def test_classes_that_need_more_than_assignments_are_refused() -> None:
    with pytest.raises(TypeError, match="weak references"):
        quick_init(attrs.make_class("Weak", ["a"], frozen=True, slots=True))
    checked = {"a": attrs.field(validator=attrs.validators.instance_of(int))}
    with pytest.raises(TypeError, match="more than a default"):
        quick_init(attrs.make_class("Checked", checked, slots=True, weakref_slot=False))


def test_hot_classes_keep_their_defaults() -> None:
    assert PodSpec(node_name="n") == PodSpec(node_name="n")
    assert Request("get").query is not None
