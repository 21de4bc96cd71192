"""What a running server keeps: made once, valid, and pointing at one another."""

from controlplane.api.object import Object
from controlplane.apiserver.kinds.tables import table_of
from tests.apiserver.world import World

FLOW = "flowcontrol.apiserver.k8s.io"


def served():
    world = World(authorize=True, track_fields=True)
    world.server.install_server_objects(world.now, ["apiserver"])
    return world


def items(world, resource, **where):
    return world.do("list", resource, **where).tree["items"]


def test_every_flow_schema_has_its_priority_level():
    world = served()
    levels = {
        each["metadata"]["name"]
        for each in items(world, "prioritylevelconfigurations", group=FLOW, namespace="")
    }
    schemas = items(world, "flowschemas", group=FLOW, namespace="")
    assert (len(levels), len(schemas)) == (8, 13)
    assert {each["spec"]["priorityLevelConfiguration"]["name"] for each in schemas} == levels


def test_every_served_version_has_an_available_api_service():
    world = served()
    found = items(world, "apiservices", group="apiregistration.k8s.io", namespace="")
    assert {"v1.", "v1.apps", "v2.autoscaling"} <= {each["metadata"]["name"] for each in found}
    for each in found:
        (condition,) = each["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("Available", "True")


def test_the_service_of_the_api_has_endpoints_in_both_forms():
    world = served()
    endpoints = world.get("endpoints", "kubernetes").tree
    (part,) = world.get("endpointslices", "kubernetes", group="discovery.k8s.io").tree["endpoints"]
    assert [each["ip"] for each in endpoints["subsets"][0]["addresses"]] == part["addresses"]


def test_a_second_server_makes_nothing_again_and_leaves_what_was_changed():
    world = served()
    changed = {"spec": {"limited": {"nominalConcurrencyShares": 7}}}
    world.patch("prioritylevelconfigurations", "system", changed, group=FLOW, namespace="")
    revision = world.server.store.revision
    world.server.install_server_objects(world.now, ["apiserver"])
    assert world.server.store.revision == revision


def definition(group, *versions):
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": f"foos.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [
                {"name": name, "served": served, "storage": name == "v1", "schema": schema}
                for name, served in versions
            ],
        },
    }


def registered(world):
    found = items(world, "apiservices", group="apiregistration.k8s.io", namespace="")
    return {
        each["metadata"]["name"] for each in found if each["metadata"]["name"].endswith("example")
    }


def test_versions_of_custom_resources_have_api_services_while_they_are_served():
    world = World(authorize=True, track_fields=True, registers_groups=True)
    where = {"group": "apiextensions.k8s.io", "namespace": ""}
    crds = "customresourcedefinitions"
    world.create(crds, definition("g.example", ("v1", True), ("v1beta1", True)), **where)
    world.create(crds, definition("h.example", ("v1", True), ("v2", False)), **where)
    assert registered(world) == {"v1.g.example", "v1beta1.g.example", "v1.h.example"}
    one = world.get(
        "apiservices", "v1.g.example", group="apiregistration.k8s.io", namespace=""
    ).tree
    assert one["spec"] == {
        "group": "g.example",
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 100,
    }
    assert one["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "true"}
    assert one["status"]["conditions"][0]["type"] == "Available"
    world.delete(crds, "foos.g.example", **where)
    world.server.settle(world.now)
    assert registered(world) == {"v1.h.example"}
    plain = World()
    plain.create(crds, definition("g.example", ("v1", True)), **where)
    assert registered(plain) == set()


def test_api_services_are_shown_with_where_they_are_and_how():
    info = served().server.resource("apiregistration.k8s.io", "v1", "apiservices")
    ready = {"type": "Available", "status": "True", "reason": "Local"}
    down = {"type": "Available", "status": "False", "reason": "MissingEndpoints"}
    trees = [
        {"metadata": {"name": "v1.apps"}, "spec": {}, "status": {"conditions": [ready]}},
        {
            "metadata": {"name": "v1.x"},
            "spec": {"service": {"namespace": "n", "name": "s"}},
            "status": {"conditions": [down]},
        },
        {"metadata": {"name": "v1.y"}, "spec": {}},
    ]
    table = table_of(info, [Object(tree) for tree in trees], 0, "None", "v1")
    assert [each["name"] for each in table["columnDefinitions"]] == [
        "Name",
        "Service",
        "Available",
        "Age",
    ]
    assert [row["cells"][:3] for row in table["rows"]] == [
        ["v1.apps", "Local", "True"],
        ["v1.x", "n/s", "False (MissingEndpoints)"],
        ["v1.y", "Local", "Unknown"],
    ]
