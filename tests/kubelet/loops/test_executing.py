"""Programs of containers that the shell runs, in a whole cluster: their user, and their termination messages."""

from __future__ import annotations

import pytest

from actors import Context
from controlplane.client.loops.clientset import PODS, SERVICES, Client
from tests.test_cluster import SECOND, cluster_with, pods, run


def shown(script, *, pod_context=None, volumes=(), **container):
    """The status of the one container of a pod that runs a script."""
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": pod_context or {},
            "volumes": list(volumes),
            "containers": [
                {
                    "name": "c",
                    "image": "busybox",
                    "command": ["/bin/sh", "-c"],
                    "args": [script],
                    **container,
                }
            ],
        },
    }

    async def user(ctx: Context) -> None:
        await Client(ctx).create(PODS, tree)
        await ctx.sleep(60 * SECOND)

    cluster = cluster_with(user)
    run(cluster)
    [pod] = pods(cluster)
    return pod.status.container_statuses[0].state


def ended(script, **more):
    return shown(script, **more).terminated


@pytest.mark.parametrize(
    ("script", "options", "message"),
    [
        ("echo -n DONE > /dev/termination-log", {}, "DONE"),
        ("echo -n DONE > /tmp/told", {"terminationMessagePath": "/tmp/told"}, "DONE"),
        ("echo out; exit 1", {}, ""),
        (
            "echo out; exit 1",
            {"terminationMessagePolicy": "FallbackToLogsOnError"},
            "out\n",
        ),
        ("echo out", {"terminationMessagePolicy": "FallbackToLogsOnError"}, ""),
        (
            "echo -n OK > /dev/termination-log; echo out; exit 1",
            {"terminationMessagePolicy": "FallbackToLogsOnError"},
            "OK",
        ),
    ],
)
def test_a_termination_message_is_in_the_status(script, options, message):
    assert ended(script, **options).message == message


@pytest.mark.parametrize(
    ("pod_context", "own", "told"),
    [
        ({"runAsUser": 1001}, {}, "uid=1001 gid=0(root) groups=0(root)"),
        ({"runAsUser": 1001, "runAsGroup": 2002}, {}, "uid=1001 gid=2002 groups=2002"),
        ({"runAsUser": 1001}, {"runAsUser": 7, "runAsGroup": 8}, "uid=7 gid=8 groups=8"),
        (
            {"fsGroup": 5, "supplementalGroups": [1234, 5]},
            {},
            "uid=0(root) gid=0(root) groups=0(root),1234,5",
        ),
    ],
)
def test_a_program_has_the_identity_of_its_security_context(pod_context, own, told):
    found = ended(
        "id -u > /dev/null; id > /dev/termination-log", pod_context=pod_context, securityContext=own
    )
    assert found.message == f"{told}\n"


def field(name, path):
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def test_a_program_knows_the_addresses_of_its_pod_and_node():
    env = [field("A", "status.hostIPs"), field("B", "status.podIP"), field("C", "status.podIPs")]
    found = ended("echo $A $B $C > /dev/termination-log", env=env).message.split()
    assert found[1] == found[2]
    assert all(each.count(".") == 3 for each in found)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("$(A)", "error SubPath `/tmp` must not be an absolute path"),
        ("x/$(B)", "unable to provision SubPath `x/..`: must not contain '..'"),
        ("$(NONE)/$(ALSO)", "missing value for ALSO, NONE"),
    ],
)
def test_a_path_that_leads_out_of_its_volume_is_refused(path, told):
    state = shown(
        "true",
        volumes=[{"name": "v", "emptyDir": {}}],
        volumeMounts=[{"name": "v", "mountPath": "/v", "subPathExpr": path}],
        env=[{"name": "A", "value": "/tmp"}, {"name": "B", "value": ".."}],
    )
    assert (state.waiting.reason, state.waiting.message) == ("CreateContainerConfigError", told)


def test_a_program_without_limits_has_those_of_its_node():
    source = {"resourceFieldRef": {"resource": "limits.cpu"}}
    found = ended("echo $CPU > /dev/termination-log", env=[{"name": "CPU", "valueFrom": source}])
    assert found.message == "4\n"


def test_the_directory_of_a_sub_path_is_there_in_the_whole_volume():
    found = ended(
        "test -d /whole/p && ! test -d /whole/q && echo yes > /dev/termination-log",
        volumes=[{"name": "v", "emptyDir": {}}],
        volumeMounts=[
            {"name": "v", "mountPath": "/part", "subPathExpr": "$(A)"},
            {"name": "v", "mountPath": "/whole"},
        ],
        env=[{"name": "A", "value": "p"}],
    )
    assert found.message == "yes\n"


def service(name):
    spec = {"ports": [{"port": 8765, "targetPort": 80}], "selector": {"a": "b"}}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def variables(script, *, later=(), pod_spec=None, **container):
    """Return the output of a script in a pod with the Service `fooservice`; `later` are created while it runs."""
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {"name": "c", "image": "i", "command": ["sh", "-c", script], **container}
            ],
            **(pod_spec or {}),
        },
    }

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(SERVICES, service("fooservice"))
        await client.create(PODS, tree)
        await ctx.sleep(30 * SECOND)
        for name in later:
            await client.create(SERVICES, service(name))
        await ctx.sleep(60 * SECOND)

    cluster = cluster_with(user, nodes=1)
    run(cluster)
    [pod] = pods(cluster)
    found = {each.name: each.view for each in cluster.objects("/registry/services/specs/")}
    return pod.status.container_statuses[0].state.terminated.message, found


def test_a_program_finds_services_by_its_variables():
    told, services = variables(
        "echo $FOOSERVICE_SERVICE_HOST $FOOSERVICE_PORT_8765_TCP $KUBERNETES_SERVICE_PORT "
        "> /dev/termination-log"
    )
    address = services["fooservice"].spec.cluster_ip
    assert told == f"{address} tcp://{address}:8765 443\n"


def test_a_pod_without_service_links_finds_the_api_server_alone():
    told, _ = variables(
        "env | grep _SERVICE_HOST > /dev/termination-log", pod_spec={"enableServiceLinks": False}
    )
    assert told == "KUBERNETES_SERVICE_HOST=10.0.0.1\n"


def test_own_variables_override_those_of_services_and_may_refer_to_them():
    env = [
        {"name": "URL", "value": "http://$(FOOSERVICE_SERVICE_HOST) $(HOME)"},
        {"name": "FOOSERVICE_SERVICE_PORT", "value": "own"},
    ]
    told, services = variables("echo $URL $FOOSERVICE_SERVICE_PORT > /dev/termination-log", env=env)
    assert told == f"http://{services['fooservice'].spec.cluster_ip} $(HOME) own\n"


def test_a_restarted_container_finds_services_that_came_meanwhile():
    script = "env | grep -c _SERVICE_HOST > /dev/termination-log; sleep 40; test -f /v/x && exit 0; touch /v/x; exit 1"
    told, _ = variables(
        script,
        later=["late"],
        pod_spec={"restartPolicy": "OnFailure", "volumes": [{"name": "v", "emptyDir": {}}]},
        volumeMounts=[{"name": "v", "mountPath": "/v"}],
    )
    assert told == "3\n"
