"""The result of a search on a node is reused while the node's pools are unchanged."""

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.scheduler.dra.devices import DeviceID
from controlplane.scheduler.dra.recall import Recall

CLASS: Tree = {"metadata": {"name": "gpu"}}
LABELS = {"zone": "east"}
FOUND: list[Tree] = [{"devices": {}}]


@frozen
class Pool:
    driver: str
    name: str


def remembering(*pools: str) -> Recall[Pool]:
    """A memory in which node n1 reaches these pools and has answered the question "q"."""
    recall: Recall[Pool] = Recall()
    recall.keep_pools("features", "n1", LABELS, [Pool("driver", name) for name in pools])
    recall.keep(recall.question("q", (CLASS,)), "n1", LABELS, FOUND)
    return recall


def test_an_answer_is_known_to_the_same_question_on_the_same_node() -> None:
    question = remembering("p1").question("q", (CLASS,))
    known = question.answer("n1", dict(LABELS))
    assert known is not None
    assert known.found is FOUND
    assert question.answer("n2", LABELS) is None


def test_other_labels_of_the_node_ask_anew() -> None:
    question = remembering("p1").question("q", (CLASS,))
    assert question.answer("n1", {"zone": "west"}) is None


def test_a_class_that_changed_asks_anew() -> None:
    question = remembering("p1").question("q", ({**CLASS},))
    assert question.answer("n1", LABELS) is None


def test_a_device_in_use_in_a_pool_of_the_node_asks_anew() -> None:
    recall = remembering("p1", "p2")
    recall.turn_to(frozenset([DeviceID("driver", "p3", "d")]))
    assert recall.question("q", (CLASS,)).answer("n1", LABELS) is not None
    recall.turn_to(frozenset([DeviceID("driver", "p2", "d")]))
    assert recall.question("q", (CLASS,)).answer("n1", LABELS) is None


def test_an_answer_after_the_change_is_known_until_the_next_one() -> None:
    recall = remembering("p1")
    recall.turn_to(frozenset([DeviceID("driver", "p1", "d")]))
    question = recall.question("q", (CLASS,))
    recall.keep(question, "n1", LABELS, None)
    known = question.answer("n1", LABELS)
    assert known is not None
    assert known.found is None
    recall.turn_to(frozenset())
    assert question.answer("n1", LABELS) is None
