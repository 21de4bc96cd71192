"""The list of choices: what it hands over, and which labels it keeps the numbers of."""

from __future__ import annotations

from actors.choices import TASK, ChoiceList
from actors.recording import flat


def test_labels_of_ended_tasks_are_forgotten_once_they_are_handed_over() -> None:
    choices = ChoiceList()
    for number in range(1000):
        choices.append(TASK, 2, 1, f"server/request-{number}")
        choices.append("message", 2, 0, "pods")
    choices.append(TASK, 2, 1, "server/main")
    packed, labels = choices.hand_over({"server/main"})
    assert len(packed) == 2001
    assert len(labels) == 1002
    assert set(choices._label_no) == {("message", "pods"), (TASK, "server/main")}
    assert len(choices) == 0


def test_what_is_handed_over_names_the_same_choices_as_one_list() -> None:
    whole, parts = ChoiceList(), ChoiceList()
    found, labels = [], []
    for number in range(30):
        for choice in ((TASK, 3, 1, f"task {number % 4}"), ("fault", 5, 2, f"fault {number % 3}")):
            whole.append(*choice)
            parts.append(*choice)
        if number % 7 == 0:
            packed, more = parts.hand_over({"task 1"})
            found += flat(packed)
            labels += more
    packed, more = parts.hand_over(())
    found += flat(packed)
    labels += more
    assert [
        (*labels[found[at]], found[at + 1], found[at + 2]) for at in range(0, len(found), 3)
    ] == [(each.kind, each.label, each.n, each.value) for each in whole]


def test_choices_after_a_handover_are_read_by_their_labels() -> None:
    choices = ChoiceList()
    choices.append(TASK, 2, 1, "a")
    choices.append(TASK, 2, 1, "b")
    choices.hand_over({"a"})
    choices.append(TASK, 2, 0, "a")
    choices.append(TASK, 4, 3, "c")
    assert [each.label for each in choices] == ["a", "c"]
