import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api import fields, labels, node_selector, taints
from controlplane.api.constraints import NodeSelector, Taint, Toleration
from controlplane.api.decoding import decode
from controlplane.api.labels import SelectorError
from controlplane.api.meta import LabelSelector
from controlplane.api.node import Node
from controlplane.api.pod import Pod

words = st.sampled_from(["a", "b", "x-y", "1", "42", ""])
label_sets = st.dictionaries(st.sampled_from(["app", "tier", "n"]), words, max_size=3)


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("app=a", {"app": "a"}, {"app": "b"}),
        ("app!=a", {}, {"app": "a"}),
        ("app in (a, b)", {"app": "b"}, {}),
        ("app notin (a)", {"app": "b"}, {"app": "a"}),
        ("app", {"app": ""}, {}),
        ("!app", {}, {"app": "a"}),
        ("n>5", {"n": "42"}, {"n": "x"}),
        ("n<5", {"n": "1"}, {}),
        ("app in ()", {"app": ""}, {"app": "a"}),
    ],
)
def test_each_operator_matches_as_upstream(text, matching, other):
    selector = labels.parse(text)
    assert selector.matches(matching)
    assert not selector.matches(other)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=1,", "found '', expected: identifier after ','"),
        ("a in 1", "unable to parse requirement: found '1' expected: '('"),
        ("(a)", "found '(', expected: !, identifier, or 'end of string'"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
    ],
)
def test_broken_selectors_give_upstreams_message(text, message):
    with pytest.raises(SelectorError) as error:
        labels.parse(text)
    assert str(error.value) == message


@given(label_sets, label_sets)
def test_a_set_selects_exactly_its_supersets(wanted, actual):
    selector = labels.from_set(wanted)
    assert selector.matches(actual) == (wanted.items() <= actual.items())


@given(st.lists(st.sampled_from(["app=a", "!tier", "n>1", "app in (a,b)", "tier!=x-y"])))
def test_printing_and_parsing_again_changes_nothing(terms):
    selector = labels.parse(",".join(terms))
    assert labels.parse(str(selector)) == selector


def test_no_selector_object_selects_nothing_and_the_empty_one_everything():
    assert not labels.from_label_selector(None).matches({})
    assert labels.from_label_selector(LabelSelector()).matches({"any": "thing"})


def test_the_expressions_of_a_selector_object_are_checked():
    raw = {"matchExpressions": [{"key": "app", "operator": "In"}]}
    with pytest.raises(SelectorError, match="values set can't be empty"):
        labels.from_label_selector(decode(LabelSelector, raw))


def test_field_selectors_know_exact_matches_and_escapes():
    selector = fields.parse(r"spec.nodeName=n1,metadata.name!=a\,b")
    assert selector.exact("spec.nodeName") == "n1"
    assert selector.exact("metadata.name") is None
    assert selector.matches({"spec.nodeName": "n1", "metadata.name": "c"})
    assert not selector.matches({"spec.nodeName": "n1", "metadata.name": "a,b"})
    assert str(selector) == r"metadata.name!=a\,b,spec.nodeName=n1"


@given(st.text(max_size=20))
def test_field_values_survive_escaping(value):
    assert fields.unescape(fields.escape(value)) == value


NODE = Node.from_tree({"metadata": {"name": "n1", "labels": {"zone": "z1", "cores": "8"}}})


def _terms(*terms):
    return decode(NodeSelector, {"nodeSelectorTerms": list(terms)})


def test_a_node_needs_one_term_with_all_its_requirements():
    good = {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}]}
    bad = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    assert node_selector.node_selector(_terms(bad, good)).match(NODE)
    assert not node_selector.node_selector(_terms(bad, {})).match(NODE)


def test_a_broken_term_matters_only_when_no_other_matches():
    broken = {"matchExpressions": [{"key": "zone", "operator": "Near"}]}
    good = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    assert node_selector.LazyNodeSelector(_terms(broken, good)).match(NODE)
    with pytest.raises(SelectorError, match="Unsupported value"):
        node_selector.LazyNodeSelector(_terms(broken)).match(NODE)
    with pytest.raises(SelectorError):
        node_selector.node_selector(_terms(broken, good))


def test_the_node_selector_and_the_affinity_of_a_pod_must_both_fit():
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {"nodeSelector": {"cores": "8"}, "affinity": {"nodeAffinity": required}}
    fitting = node_selector.RequiredNodeAffinity(Pod.from_tree({"spec": spec}))
    assert fitting.match(NODE)
    other = node_selector.RequiredNodeAffinity(
        Pod.from_tree({"spec": spec | {"nodeSelector": {"cores": "4"}}})
    )
    assert not other.match(NODE)


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key="k", value="5"), True),
        (Toleration(key="k", value="6"), False),
        (Toleration(key="k", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="k", operator="Lt", value="9"), False),
    ],
)
def test_tolerations_cover_by_key_value_and_effect(toleration, covered):
    taint = Taint(key="k", value="5", effect="NoSchedule")
    assert taints.tolerates(toleration, taint) is covered


def test_comparing_tolerations_need_their_gate():
    taint = Taint(key="k", value="5", effect="NoSchedule")
    below = Toleration(key="k", operator="Lt", value="9")
    above = Toleration(key="k", operator="Gt", value="9")
    assert taints.tolerates(below, taint, comparison=True)
    assert not taints.tolerates(above, taint, comparison=True)


def test_the_first_uncovered_blocking_taint_is_found():
    soft = Taint(key="s", effect="PreferNoSchedule")
    hard = Taint(key="h", effect="NoExecute")
    assert taints.untolerated((soft, hard), ()) is hard
    assert taints.untolerated((soft, hard), (Toleration(key="h", operator="Exists"),)) is None


TERMS = st.lists(
    st.sampled_from(
        [
            "app=a",
            "app!=a",
            "app in (a,b)",
            "app in (b,1)",
            "app notin (b)",
            "app",
            "!app",
            "n>1",
            "n>5",
            "n<50",
            "n<5",
            "n!=42",
            "tier",
            "!tier",
            "tier!=x-y",
            "app notin (1,42)",
        ]
    ),
    min_size=1,
    max_size=4,
)


@given(TERMS, label_sets)
def test_many_requirements_say_what_each_alone_says(terms, actual):
    fill = [f"none-{number}!=x" for number in range(20)]
    selector = labels.parse(",".join(terms + fill))
    assert selector.matches(actual) == all(item.matches(actual) for item in selector.requirements)


def test_what_many_requirements_cost_goes_by_the_labels_of_an_object(monkeypatch):
    asked = []
    terms = [f"!k{number}" for number in range(500)]
    terms += [f"app!=x{number}" for number in range(500)]
    terms += [f"n>{number}" for number in range(500)]
    selector = labels.parse(",".join(terms))
    matches = labels.Requirement.matches
    monkeypatch.setattr(
        labels.Requirement,
        "matches",
        lambda item, found: asked.append(item) or matches(item, found),
    )
    assert selector.matches({"app": "a", "n": "500"})
    assert not selector.matches({"app": "a", "n": "499"})
    assert not selector.matches({"app": "x7", "n": "500"})
    assert not selector.matches({"app": "a", "n": "500", "k3": ""})
    assert not selector.matches({})
    assert len(asked) <= 5
