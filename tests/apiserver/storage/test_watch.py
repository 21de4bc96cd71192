from controlplane.api.object import Object
from tests.apiserver.world import World, config_map, events, pod


def test_a_watch_from_a_version_sees_what_came_after_it():
    world = World()
    world.create("configmaps", config_map("a"))
    start = str(world.server.store.revision)
    watcher = world.watch("configmaps", resourceVersion=start)
    world.create("configmaps", config_map("b"))
    world.patch("configmaps", "b", {"data": {"x": "1"}})
    world.delete("configmaps", "b")
    assert events(watcher) == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]


def test_a_watch_without_a_version_starts_with_what_exists():
    world = World()
    world.create("configmaps", config_map("b"))
    world.create("configmaps", config_map("a"))
    assert events(world.watch("configmaps")) == [("ADDED", "a"), ("ADDED", "b")]


def test_entering_and_leaving_a_selector_shows_as_added_and_deleted():
    world = World()
    world.create("pods", pod("a", labels={"app": "web"}))
    start = str(world.server.store.revision)
    watcher = world.watch("pods", resourceVersion=start, labelSelector="app=db")
    world.patch("pods", "a", {"metadata": {"labels": {"app": "db"}}})
    world.patch("pods", "a", {"metadata": {"labels": {"x": "y"}}})
    world.patch("pods", "a", {"metadata": {"labels": {"app": "web"}}})
    assert events(watcher) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_a_watcher_of_one_node_hears_only_of_its_pods():
    world = World()
    start = str(world.server.store.revision)
    watcher = world.watch("pods", resourceVersion=start, fieldSelector="spec.nodeName=n1")
    world.create("pods", pod("a", node="n1"))
    world.create("pods", pod("b", node="n2"))
    assert events(watcher) == [("ADDED", "a")]


def test_events_wait_until_the_cache_advances():
    world = World()
    start = str(world.server.store.revision)
    watcher = world.watch("configmaps", resourceVersion=start)
    world.server.advance()
    cache = world.server.cache_of("", "configmaps")
    space = world.server.store.keyspace("/registry/configmaps/")
    meta = {"name": "a", "namespace": "default", "resourceVersion": "99"}
    space.put("default/a", Object({"metadata": meta}))
    assert cache.lag() == 1
    assert events(watcher) == []
    world.server.advance()
    assert events(watcher) == [("ADDED", "a")]


def test_a_watch_from_before_the_window_ends_with_gone():
    world = World(watch_window=10)
    world.watch("configmaps")
    world.create("configmaps", config_map("a"))
    start = str(world.server.store.revision)
    for value in range(50):
        world.patch("configmaps", "a", {"data": {"k": str(value)}})
    watcher = world.watch("configmaps", resourceVersion=start)
    (event,) = watcher.drain()
    assert event.type == "ERROR"
    assert event.object.tree["code"] == 410
    assert event.object.tree["reason"] == "Expired"


def test_streaming_lists_end_their_start_with_a_marked_bookmark():
    world = World()
    world.create("configmaps", config_map("a"))
    watcher = world.watch(
        "configmaps",
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    first, last = watcher.drain()
    assert (first.type, last.type) == ("ADDED", "BOOKMARK")
    assert last.object.metadata["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_an_event_is_one_object_for_all_watchers():
    world = World()
    start = str(world.server.store.revision)
    watchers = [world.watch("configmaps", resourceVersion=start) for _ in range(3)]
    world.create("configmaps", config_map("a"))
    seen = [watcher.drain()[0].object for watcher in watchers]
    assert seen[0] is seen[1] is seen[2]


def test_lists_go_in_pages_of_one_revision():
    world = World()
    for name in "abcde":
        world.create("configmaps", config_map(name))
    first = world.do("list", "configmaps", limit="2").tree
    world.create("configmaps", config_map("aa"))
    token = first["metadata"]["continue"]
    assert first["metadata"]["remainingItemCount"] == 3
    rest = world.do("list", "configmaps", **{"continue": token}).tree
    names = [item["metadata"]["name"] for item in (*first["items"], *rest["items"])]
    assert names == list("abcde")


def test_selectors_filter_lists_and_unknown_fields_are_refused():
    world = World()
    world.create("pods", pod("a", labels={"app": "web"}))
    world.create("pods", pod("b"))
    found = world.do("list", "pods", labelSelector="app in (web)").tree["items"]
    assert [item["metadata"]["name"] for item in found] == ["a"]
    assert world.do("list", "pods", fieldSelector="spec.x=1").code == 400
