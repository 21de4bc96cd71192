"""Remembering by identity asks once per object and never answers for another one."""

from __future__ import annotations

from controlplane.api.recent import KEPT, by_identity


def test_the_same_object_is_asked_about_once():
    asked = []
    twice = by_identity(lambda value: asked.append(value) or len(asked))
    one, equal = [1], [1]
    assert [twice(one), twice(one), twice(equal), twice(one)] == [1, 1, 2, 1]


def test_objects_that_come_and_go_are_never_mistaken_for_each_other():
    text = by_identity(lambda value: value["n"])
    assert [text({"n": n}) for n in range(4 * KEPT)] == list(range(4 * KEPT))
