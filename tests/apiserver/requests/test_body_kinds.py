"""What a body says it is, whatever the case of its keys."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.requests import bodies

KEYS = st.sampled_from(("kind", "Kind", "KIND", "apiVersion", "apiversion", "spec", "metadata"))
BODIES = st.dictionaries(KEYS, st.sampled_from(("", "Pod", "v1", "Node")), max_size=6)
NAMES = {"apiversion": "apiVersion", "kind": "kind"}


def named(body):
    """The last of the keys that say it in any case, if it says anything."""
    last = {
        NAMES[key.lower()]: value for key, value in body.items() if key.lower() in NAMES and value
    }
    return {**body, **last}


@given(BODIES)
def test_the_last_key_that_says_the_kind_counts_and_remembered_shapes_change_nothing(body):
    for _ in range(2):
        assert bodies._last_named(body) == named(body)


def test_many_keys_and_long_ones_are_not_remembered_nor_ever_too_many():
    bodies._plain.known.clear()
    bodies._last_named({"kind": "Pod", "x" * (bodies._SHORT_KEY + 1): 1})
    bodies._last_named({f"key {number}": 1 for number in range(bodies._FEW_KEYS + 1)})
    assert not bodies._plain.known
    for number in range(2 * bodies._SHAPES):
        bodies._last_named({f"key {number}": 1})
        assert len(bodies._plain.known) <= bodies._SHAPES
