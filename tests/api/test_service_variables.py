"""Environment variables of Services: names, values, and which Services a pod sees."""

from __future__ import annotations

from controlplane.api.service_variables import variables_of


def service(name, *ports, namespace="ns", ip="10.0.0.9"):
    spec = {"clusterIP": ip, "ports": list(ports)}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


HTTP = {"port": 80, "protocol": "TCP"}
MASTER = service("kubernetes", {"port": 443, "name": "https"}, namespace="default", ip="10.0.0.1")


def test_a_service_has_variables_of_its_address_and_its_ports():
    ports = ({"port": 8081, "name": "u-d-p", "protocol": "UDP"}, {"port": 8, "name": "p", **HTTP})
    assert variables_of([service("foo-bar", *ports)], "ns", links=True) == {
        "FOO_BAR_SERVICE_HOST": "10.0.0.9",
        "FOO_BAR_SERVICE_PORT": "8081",
        "FOO_BAR_SERVICE_PORT_U_D_P": "8081",
        "FOO_BAR_SERVICE_PORT_P": "80",
        "FOO_BAR_PORT": "udp://10.0.0.9:8081",
        "FOO_BAR_PORT_8081_UDP": "udp://10.0.0.9:8081",
        "FOO_BAR_PORT_8081_UDP_PROTO": "udp",
        "FOO_BAR_PORT_8081_UDP_PORT": "8081",
        "FOO_BAR_PORT_8081_UDP_ADDR": "10.0.0.9",
        "FOO_BAR_PORT_80_TCP": "tcp://10.0.0.9:80",
        "FOO_BAR_PORT_80_TCP_PROTO": "tcp",
        "FOO_BAR_PORT_80_TCP_PORT": "80",
        "FOO_BAR_PORT_80_TCP_ADDR": "10.0.0.9",
    }


def test_a_name_that_begins_with_a_digit_gets_an_underscore():
    found = variables_of([service("1.a", HTTP)], "ns", links=True)
    assert all(key.startswith("_1_A_") for key in found)


def test_an_address_of_version_6_is_in_brackets_in_urls_alone():
    found = variables_of([service("a", HTTP, ip="fd00::1")], "ns", links=True)
    assert (found["A_PORT"], found["A_SERVICE_HOST"]) == ("tcp://[fd00::1]:80", "fd00::1")


def test_services_without_an_address_or_of_other_namespaces_have_none():
    headless = service("h", HTTP, ip="None")
    waiting = service("w", HTTP, ip="")
    other = service("o", HTTP, namespace="elsewhere")
    assert variables_of([headless, waiting, other], "ns", links=True) == {}


def test_without_service_links_only_the_api_server_has_variables():
    found = variables_of([MASTER, service("a", HTTP)], "ns", links=False)
    assert found["KUBERNETES_SERVICE_HOST"] == "10.0.0.1"
    assert all(key.startswith("KUBERNETES_") for key in found)
    assert variables_of([service("a", HTTP, namespace="default")], "default", links=False) == {}


def test_a_service_of_the_pods_namespace_named_as_the_api_servers_takes_its_place():
    own = service("kubernetes", HTTP, ip="10.0.0.7")
    for order in ([MASTER, own], [own, MASTER]):
        found = variables_of(order, "ns", links=True)
        expected = "10.0.0.7"
        assert found["KUBERNETES_SERVICE_HOST"] == expected, order
