"""What a running server keeps: made once, valid, and pointing at one another."""

from tests.apiserver.world import World

FLOW = "flowcontrol.apiserver.k8s.io"


def served():
    world = World(authorize=True, track_fields=True)
    world.server.install_standing(world.now, ["apiserver"])
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
    world.server.install_standing(world.now, ["apiserver"])
    assert world.server.store.revision == revision
