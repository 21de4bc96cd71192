"""A policy does not find its parameters, once another policy with parameters of the kind was deleted: a script.

    kubectl proxy &
    python stopped_parameter_informer.py http://127.0.0.1:8001

A ValidatingAdmissionPolicy whose parameters are config maps is made with a binding, and deleted. Then parameters, a
second policy and its binding are made. The second policy allows everything, but denies what has no parameters. The
script says whether it finds the parameters that are there, and exits with status 1 if it does not.

Needs only Python's standard library, and the rights of an administrator. It cleans up after itself.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import time
from urllib.parse import urlsplit

NAME = "stopped-parameter-informer"
GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{GROUP}/validatingadmissionpolicies"
BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"
NAMESPACES = "/api/v1/namespaces"
CONFIG_MAPS = f"{NAMESPACES}/{NAME}/configmaps"
NOTICED_S = 3.0
"""How long a server may take to notice a policy: it looks each second."""


class Api:
    """One connection to an API server."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        make = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._connection = make(parts.hostname or "127.0.0.1", parts.port, timeout=30)

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        """Send one request; status code and text of its answer."""
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json", **self._headers}
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read().decode()

    def make(self, path: str, body: object) -> None:
        """Create an object, or end the script."""
        code, text = self.ask("POST", path, body)
        if code != 201:
            raise SystemExit(f"{path}: {code}: {text.strip()}")


def policy(name: str) -> dict[str, object]:
    """A policy for config maps of the script's namespace that allows everything."""
    home = {"matchLabels": {"kubernetes.io/metadata.name": NAME}}
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps"],
    }
    return {
        "metadata": {"name": f"{NAME}-{name}"},
        "spec": {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"namespaceSelector": home, "resourceRules": [rule]},
            "validations": [{"expression": "true"}],
        },
    }


def binding(name: str) -> dict[str, object]:
    """Its binding, to the parameters of the same name."""
    parameters = {"name": name, "namespace": NAME, "parameterNotFoundAction": "Deny"}
    return {
        "metadata": {"name": f"{NAME}-{name}"},
        "spec": {
            "policyName": f"{NAME}-{name}",
            "paramRef": parameters,
            "validationActions": ["Deny"],
        },
    }


def enforced(api: Api, name: str) -> None:
    """Make a policy with its binding, and wait until the server has noticed."""
    api.make(POLICIES, policy(name))
    api.make(BINDINGS, binding(name))
    time.sleep(NOTICED_S)


def removed(api: Api, name: str) -> None:
    """Delete them again."""
    for path in (BINDINGS, POLICIES):
        api.ask("DELETE", f"{path}/{NAME}-{name}")
    time.sleep(NOTICED_S)


def main() -> int:
    """Exit status 1 when the second policy does not find its parameters."""
    parser = argparse.ArgumentParser(description="Does a second policy find its parameters?")
    parser.add_argument("url", help="of an API server, or of kubectl proxy, which needs no token")
    parser.add_argument("--token", default="", help="of an administrator")
    asked = parser.parse_args()
    api = Api(asked.url, asked.token)
    api.make(NAMESPACES, {"metadata": {"name": NAME}})
    try:
        enforced(api, "first")
        removed(api, "first")
        api.make(CONFIG_MAPS, {"metadata": {"name": "second"}})
        enforced(api, "second")
        code, text = api.ask("POST", CONFIG_MAPS, {"metadata": {"name": "checked"}})
        removed(api, "second")
    finally:
        api.ask("DELETE", f"{NAMESPACES}/{NAME}")
    found = code == 201
    print("the second policy finds its parameters" if found else f"not found: {text.strip()}")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
