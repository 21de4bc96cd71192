from __future__ import annotations

import json

from controlplane.api.apps import ControllerRevision, StatefulSet
from controlplane.api.fnv import fnv1_32
from controlplane.controllers.common import history
from controlplane.controllers.common.go_json import compact_json, encoded_template

OWNER = StatefulSet.from_tree(
    {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "uid": "u"}}
)
TEMPLATE = {
    "metadata": {"labels": {"app": "web", "tier": ""}, "creationTimestamp": None},
    "spec": {
        "containers": [{"name": "c", "image": "one", "args": [], "stdin": False}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "hostname": "",
        "tolerations": None,
    },
}


def revision(template, **more):
    made = history.new_revision(OWNER, template, more.get("number", 1), more.get("collisions"))
    metadata = {**made.tree["metadata"], **more.get("metadata", {})}
    return ControllerRevision.from_tree({**made.tree, "metadata": metadata})


def test_fnv_1_multiplies_before_it_mixes():
    assert fnv1_32(b"") == 0x811C9DC5
    assert fnv1_32(b"a") == 0x050C5D7E
    assert fnv1_32(b"foobar") == 0x31F0B262


def test_a_template_is_written_as_go_writes_it():
    assert encoded_template(TEMPLATE) == {
        "metadata": {"labels": {"app": "web", "tier": ""}},
        "spec": {
            "containers": [{"name": "c", "image": "one", "resources": {}}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
    }
    assert encoded_template({}) == {"metadata": {}, "spec": {}}
    quantities = {"spec": {"containers": [{"resources": {"limits": {"cpu": "0.5"}}}]}}
    (container,) = encoded_template(quantities)["spec"]["containers"]
    assert container == {"resources": {"limits": {"cpu": "500m"}}}


def test_what_could_end_a_script_is_escaped():
    assert (
        compact_json({"b": "a<b>&", "a": "ä"}) == '{"a":"ä","b":"a\\u003cb\\u003e\\u0026"}'.encode()
    )


def test_the_name_follows_from_the_data_and_the_collisions():
    same = revision({**TEMPLATE, "spec": {**TEMPLATE["spec"], "hostname": None}})
    assert revision(TEMPLATE).name == same.name
    assert revision(TEMPLATE).name != revision(TEMPLATE, collisions=1).name
    assert history.equal(revision(TEMPLATE), same)
    assert len(history.revision_name("x" * 300, "5dcc595996")) == 223 + 11


def test_revisions_are_ordered_by_number_then_age_then_name():
    later = {"creationTimestamp": "2026-03-01T12:00:01Z"}
    sooner = {"creationTimestamp": "2026-03-01T12:00:00Z"}
    found = history.in_order(
        [
            revision(TEMPLATE, number=2, metadata={"name": "d", **sooner}),
            revision(TEMPLATE, metadata={"name": "c", **later}),
            revision(TEMPLATE, metadata={"name": "b", **sooner}),
            revision(TEMPLATE, metadata={"name": "a", **later}),
        ]
    )
    assert [each.name for each in found] == ["b", "a", "c", "d"]
    assert history.next_number(found) == 3
    assert history.next_number([]) == 1


def test_an_older_way_of_writing_means_the_same_and_is_not_equal():
    made = revision(TEMPLATE)
    template = {**history.template_of(made), "metadata": {"creationTimestamp": None}}
    template["metadata"]["labels"] = TEMPLATE["metadata"]["labels"]
    data = {"spec": {"template": {**template, "$patch": "replace"}}}
    older = ControllerRevision.from_tree({**made.tree, "data": data})
    assert history.means_the_same(made, older)
    assert not history.equal(made, older)


def test_the_fields_of_a_revision_are_sorted():
    """Clients compare its bytes with those that they make of the template."""
    template = {
        "spec": {"containers": [{"name": "a", "image": "b"}], "dnsPolicy": "Default"},
        "metadata": {"labels": {"z": "1", "a": "2"}},
    }
    data = history.template_patch(template)
    assert json.dumps(data) == json.dumps(data, sort_keys=True)
