"""A store at hand and one that is asked by values: the same requests have the same outcome."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.request import Request
from controlplane.apiserver.storage.transactions import perform
from tests.apiserver.world import MERGE, World, config_map, pod

NAMES = st.sampled_from(("a", "b"))
RESOURCES = st.sampled_from(("configmaps", "pods"))
VERBS = st.sampled_from(("create", "get", "list", "update", "patch", "delete", "deletecollection"))


@st.composite
def requests(draw):
    verb, resource, name = draw(VERBS), draw(RESOURCES), draw(NAMES)
    made = config_map(name, x="1") if resource == "configmaps" else pod(name, node="n")
    meta = {"labels": {"l": draw(NAMES)}}
    if draw(st.booleans()):
        meta["finalizers"] = ["example.com/kept"]
    query = {"dryRun": "All"} if verb not in ("get", "list") and draw(st.booleans()) else {}
    body, media = None, "application/json"
    if verb in ("create", "update"):
        body = {**made, "metadata": {**made["metadata"], **meta}}
    elif verb == "patch":
        body, media = {"metadata": {**meta, "finalizers": None}}, MERGE
    elif verb == "delete" and draw(st.booleans()):
        body = {"gracePeriodSeconds": 0}
    named = "" if verb in ("create", "list", "deletecollection") else name
    return Request(
        verb, "", "v1", resource, "default", named, query=query, body=body, content_type=media
    )


def by_values(world, request):
    """Handle a request as where the store is elsewhere; the answer and what it wrote last."""
    steps, written = world.server.steps(request, world.now), None
    try:
        operation = next(steps)
        while True:
            outcome = perform(world.server.store, operation)
            if getattr(outcome, "made", False):
                written = outcome.revision
            operation = steps.send(outcome)
    except StopIteration as end:
        return end.value, written


@given(st.lists(requests(), max_size=12))
def test_both_ways_answer_write_and_keep_the_same(asked):
    near, far = World(), World()
    for request in asked:
        near.server.at_hand.written = None
        answer = near.server.handle(request, near.now)
        other, written = by_values(far, request)
        assert (answer.code, answer.tree) == (other.code, other.tree)
        assert near.server.at_hand.written == written
    assert near.server.store.revision == far.server.store.revision
    for prefix in near.server.store.prefixes():
        mine, theirs = (w.server.store.keyspace(prefix) for w in (near, far))
        assert [(k, o.tree) for k, o in mine.items()] == [(k, o.tree) for k, o in theirs.items()]
        assert mine.latest == theirs.latest
