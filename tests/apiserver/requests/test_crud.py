from tests.apiserver.world import MERGE, START, World, config_map, deployment, pod


def test_a_created_object_gets_what_the_server_chooses():
    world = World()
    response = world.create("pods", pod("a"))
    meta = response.tree["metadata"]
    assert response.code == 201
    assert meta["uid"].startswith("uid-")
    assert meta["creationTimestamp"] == "2031-01-01T00:00:00Z"
    assert meta["namespace"] == "default"
    assert meta["resourceVersion"] == str(world.server.store.revision)
    assert response.tree["spec"]["restartPolicy"] == "Always"
    assert response.tree["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_generate_name_appends_a_suffix():
    world = World()
    body = {**config_map(""), "metadata": {"generateName": "web-"}}
    name = world.create("configmaps", body).tree["metadata"]["name"]
    assert name.startswith("web-") and len(name) == 9


def test_creating_twice_is_refused():
    world = World()
    world.create("configmaps", config_map("a"))
    again = world.create("configmaps", config_map("a"))
    assert (again.code, again.tree["reason"]) == (409, "AlreadyExists")
    assert again.tree["message"] == 'configmaps "a" already exists'


def test_an_update_with_a_stale_version_conflicts():
    world = World()
    first = world.create("configmaps", config_map("a", k="1")).tree
    world.patch("configmaps", "a", {"data": {"k": "2"}})
    stale = world.do("update", "configmaps", "a", {**first, "data": {"k": "3"}})
    assert (stale.code, stale.tree["reason"]) == (409, "Conflict")
    assert stale.tree["message"] == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please '
        "apply your changes to the latest version and try again"
    )


def test_a_write_that_changes_nothing_keeps_the_version():
    world = World()
    world.create("configmaps", config_map("a", k="1"))
    before = world.server.store.revision
    world.patch("configmaps", "a", {"data": {"k": "1"}})
    assert world.server.store.revision == before


def test_invalid_objects_name_each_wrong_field():
    body = pod("a")
    body["spec"]["containers"] = [{"name": "Bad_", "image": ""}]
    answer = World().create("pods", body)
    assert answer.code == 422
    fields = [cause["field"] for cause in answer.tree["details"]["causes"]]
    assert fields == ["spec.containers[0].name", "spec.containers[0].image"]


def test_a_changed_spec_is_a_new_generation_and_a_changed_status_is_not():
    world = World()
    where = {"group": "apps"}
    world.create("deployments", deployment("d"), **where)
    world.patch("deployments", "d", {"spec": {"replicas": 3}}, **where)
    status = {"status": {"replicas": 3}}
    answer = world.patch("deployments", "d", status, sub="status", **where)
    assert answer.tree["metadata"]["generation"] == 2
    assert answer.tree["status"] == {"replicas": 3}


def test_the_main_resource_ignores_status_and_the_other_way_round():
    world = World()
    where = {"group": "apps"}
    world.create("deployments", deployment("d"), **where)
    world.patch("deployments", "d", {"status": {"replicas": 9}}, **where)
    answer = world.patch("deployments", "d", {"spec": {"replicas": 9}}, sub="status", **where)
    assert answer.tree["status"] == {}
    assert answer.tree["spec"]["replicas"] == 1


def test_dry_runs_store_nothing():
    world = World()
    before = world.server.store.revision
    answer = world.create("configmaps", config_map("a"), dryRun="All")
    assert answer.code == 201
    assert world.server.store.revision == before
    assert world.get("configmaps", "a").code == 404


def test_a_bound_pod_is_deleted_gracefully():
    world = World()
    world.create("pods", pod("a", node="n"))
    answer = world.delete("pods", "a")
    assert answer.tree["metadata"]["deletionGracePeriodSeconds"] == 30
    assert answer.tree["metadata"]["deletionTimestamp"] == "2031-01-01T00:00:30Z"
    assert world.get("pods", "a").code == 200
    world.delete("pods", "a", {"gracePeriodSeconds": 0})
    assert world.get("pods", "a").code == 404


def test_an_unbound_pod_goes_at_once():
    world = World()
    world.create("pods", pod("a"))
    world.delete("pods", "a")
    assert world.get("pods", "a").code == 404


def test_finalizers_hold_an_object_until_they_are_gone():
    world = World()
    body = config_map("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    world.create("configmaps", body)
    assert "deletionTimestamp" in world.delete("configmaps", "a").tree["metadata"]
    world.patch("configmaps", "a", {"metadata": {"finalizers": None}})
    assert world.get("configmaps", "a").code == 404


def test_preconditions_of_a_deletion_are_checked():
    world = World()
    world.create("configmaps", config_map("a"))
    answer = world.delete("configmaps", "a", {"preconditions": {"uid": "other"}})
    assert answer.code == 409
    assert world.get("configmaps", "a").code == 200


def test_binding_sets_the_node_and_a_condition():
    world = World()
    world.create("pods", pod("a"))
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a"},
        "target": {"kind": "Node", "name": "n1"},
    }
    assert world.create("pods", body, name="a", sub="binding").code == 201
    bound = world.get("pods", "a").tree
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    again = world.create("pods", body, name="a", sub="binding")
    assert (again.code, again.tree["reason"]) == (409, "Conflict")


def test_scale_reads_and_writes_replicas():
    world = World()
    where = {"group": "apps"}
    world.create("deployments", deployment("d", 2), **where)
    assert world.get("deployments", "d", sub="scale", **where).tree["spec"] == {"replicas": 2}
    world.patch("deployments", "d", {"spec": {"replicas": 5}}, MERGE, sub="scale", **where)
    assert world.get("deployments", "d", **where).tree["spec"]["replicas"] == 5


def test_objects_need_their_namespace_to_exist_and_to_live():
    world = World()
    missing = world.create("configmaps", config_map("a"), namespace="nowhere")
    assert (missing.code, missing.tree["message"]) == (404, 'namespaces "nowhere" not found')
    world.create(
        "namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}},
        namespace="",
    )
    world.delete("namespaces", "n", namespace="")
    refused = world.create("configmaps", config_map("a"), namespace="n")
    assert (refused.code, refused.tree["reason"]) == (403, "Forbidden")


def test_a_service_gets_an_address_and_gives_it_back():
    world = World()
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"ports": [{"port": 80}], "type": "NodePort"},
    }
    spec = world.create("services", body).tree["spec"]
    assert spec["clusterIP"].startswith("10.")
    assert 30000 <= spec["ports"][0]["nodePort"] <= 32767
    taken = {
        **body,
        "metadata": {"name": "t"},
        "spec": {**body["spec"], "clusterIP": spec["clusterIP"]},
    }
    assert world.create("services", taken).code == 422
    world.delete("services", "s")
    assert world.create("services", taken).code == 201


def test_events_expire():
    world = World()
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    world.create("events", body)
    assert world.server.store.next_expiry() == START + 3600 * 10**9
    world.server.store.expire(START + 3600 * 10**9)
    assert world.get("events", "e").code == 404


def test_unknown_resources_are_not_found():
    answer = World().get("nonsense", "a")
    assert (answer.code, answer.tree["reason"]) == (404, "NotFound")


def webhooks(**fields):
    hook = {
        "name": "h.example.com",
        "clientConfig": {"url": "https://x"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "w"},
        "webhooks": [hook],
    }


def test_webhooks_count_each_change_and_each_list_that_was_written_without_items():
    world = World()
    where = {"group": "admissionregistration.k8s.io", "namespace": ""}
    kind = "validatingwebhookconfigurations"

    def written(**fields):
        body = webhooks(**fields)
        body["metadata"] = world.get(kind, "w", **where).tree["metadata"]
        return world.do("update", kind, "w", body, **where).tree["metadata"]["generation"]

    assert world.create(kind, webhooks(), **where).tree["metadata"]["generation"] == 1
    assert written() == 1
    assert written(timeoutSeconds=5) == 2
    assert written(timeoutSeconds=5) == 2
    assert written(timeoutSeconds=5, rules=[]) == 3
    assert written(timeoutSeconds=5, rules=[]) == 4
    assert written(timeoutSeconds=5, namespaceSelector={}) == 4
