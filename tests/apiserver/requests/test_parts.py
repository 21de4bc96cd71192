"""Requests are handled in parts: what happens when others come in between."""

from controlplane.api.request import Request
from controlplane.apiserver.storage.transactions import Get, Transaction, perform
from tests.apiserver.world import MERGE, World, config_map


class Handling:
    """A request that goes on when it is told to."""

    def __init__(self, world, verb, resource, name="", body=None, **query):
        media = MERGE if verb == "patch" else "application/json"
        request = Request(
            verb, "", "v1", resource, "default", name, query=query, body=body, content_type=media
        )
        self.store = world.server.store
        self.steps = world.server.steps(request, world.now)
        self.operation = next(self.steps)
        self.answer = None

    def go_on(self):
        """One operation."""
        try:
            self.operation = self.steps.send(perform(self.store, self.operation))
        except StopIteration as end:
            self.answer = end.value
        return self.answer

    def to(self, kind):
        """Up to the first operation of a kind."""
        while type(self.operation) is not kind:
            assert self.go_on() is None
        return self

    def end(self):
        while self.answer is None:
            self.go_on()
        return self.answer


def test_a_request_reads_then_writes_if_no_other_wrote_meanwhile():
    world = World()
    made = world.create("configmaps", config_map("a", x="1"))
    handling = Handling(world, "patch", "configmaps", "a", {"data": {"y": "2"}})
    assert handling.operation == Get("/registry/configmaps/", "default/a")
    handling.to(Transaction)
    assert handling.operation.expected == (
        ("/registry/configmaps/", "default/a", made.object.resource_version),
    )
    assert handling.end().tree["data"] == {"x": "1", "y": "2"}


def test_a_patch_that_is_overtaken_is_made_on_the_newer_object():
    world = World()
    world.create("configmaps", config_map("a", x="1"))
    handling = Handling(world, "patch", "configmaps", "a", {"data": {"y": "2"}}).to(Transaction)
    world.patch("configmaps", "a", {"data": {"z": "3"}})
    assert handling.end().tree["data"] == {"x": "1", "y": "2", "z": "3"}


def test_an_update_of_a_version_that_is_overtaken_conflicts():
    world = World()
    made = world.create("configmaps", config_map("a", x="1")).tree
    handling = Handling(world, "update", "configmaps", "a", {**made, "data": {"x": "2"}})
    handling.to(Transaction)
    world.patch("configmaps", "a", {"data": {"z": "3"}})
    assert handling.end().reason == "Conflict"
    assert world.get("configmaps", "a").tree["data"] == {"x": "1", "z": "3"}


def test_an_update_of_what_is_deleted_meanwhile_finds_nothing():
    world = World()
    world.create("configmaps", config_map("a"))
    handling = Handling(world, "patch", "configmaps", "a", {"data": {"y": "2"}}).to(Transaction)
    world.delete("configmaps", "a")
    assert handling.end().code == 404


def test_a_deletion_that_is_overtaken_deletes_the_newer_object_unless_its_uid_is_another():
    world = World()
    world.create("configmaps", config_map("a"))
    handling = Handling(world, "delete", "configmaps", "a").to(Transaction)
    world.patch("configmaps", "a", {"data": {"z": "3"}})
    assert handling.end().ok and world.get("configmaps", "a").code == 404

    uid = world.create("configmaps", config_map("a")).tree["metadata"]["uid"]
    options = {"preconditions": {"uid": uid}}
    handling = Handling(world, "delete", "configmaps", "a", options).to(Transaction)
    world.delete("configmaps", "a")
    world.create("configmaps", config_map("a"))
    assert handling.end().reason == "Conflict"
    assert world.get("configmaps", "a").ok


def test_creation_that_is_overtaken_finds_the_name_taken():
    world = World()
    handling = Handling(world, "create", "configmaps", "", config_map("a")).to(Transaction)
    world.create("configmaps", config_map("a"))
    assert handling.end().reason == "AlreadyExists"


def service(name):
    ports = [{"port": 80}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"type": "NodePort", "ports": ports},
    }


def test_services_that_are_created_at_once_share_no_address_and_no_port():
    world = World()
    world.server.registries.named("", "services")
    one = Handling(world, "create", "services", "", service("one")).to(Transaction)
    world.server._cursors.clear()  # as another server, which does not know of the first one's choice
    two = Handling(world, "create", "services", "", service("two")).to(Transaction)
    specs = [one.end().tree["spec"], two.end().tree["spec"]]
    assert specs[0]["clusterIP"] != specs[1]["clusterIP"]
    assert specs[0]["ports"][0]["nodePort"] != specs[1]["ports"][0]["nodePort"]


def test_creations_at_once_cannot_both_take_the_last_of_a_quota():
    world = World()
    world.create(
        "resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "1"}}}
    )
    status = {"status": {"hard": {"count/configmaps": "1"}, "used": {"count/configmaps": "0"}}}
    assert world.patch("resourcequotas", "q", status, sub="status").ok
    one = Handling(world, "create", "configmaps", "", config_map("one")).to(Transaction)
    two = Handling(world, "create", "configmaps", "", config_map("two")).to(Transaction)
    assert one.operation.changes[0].prefix == "/registry/resourcequotas/"
    assert [one.end().ok, two.end().ok] == [True, False]
    assert "exceeded quota" in two.answer.message
