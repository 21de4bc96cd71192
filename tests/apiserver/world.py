"""A server with a clock that tests move, and short calls for requests."""

from itertools import count

from controlplane.api.request import Request
from controlplane.apiserver.options import ServerOptions
from controlplane.apiserver.requests.server import ApiServer

SECOND = 10**9
START = 1_924_992_000 * SECOND  # 2031-01-01T00:00:00Z
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


class World:
    def __init__(self, **settings):
        self.numbers = count(1)
        self.now = START
        settings.setdefault("disabled", ("ServiceAccount",))
        self.server = ApiServer(
            uid=lambda: f"uid-{next(self.numbers)}",
            suffix=lambda: f"x{next(self.numbers):04}",
            options=ServerOptions(**settings),
        )
        self.server.bootstrap(self.now)

    def do(
        self,
        verb,
        resource,
        name="",
        body=None,
        *,
        group="",
        version="v1",
        namespace="default",
        sub="",
        media="application/json",
        **query,
    ):
        request = Request(
            verb,
            group,
            version,
            resource,
            namespace=namespace,
            name=name,
            subresource=sub,
            query=query,
            body=body,
            content_type=media,
        )
        response = self.server.handle(request, self.now)
        self.server.advance()
        return response

    def create(self, resource, body, **where):
        return self.do("create", resource, body=body, **where)

    def get(self, resource, name, **where):
        return self.do("get", resource, name, **where)

    def delete(self, resource, name, body=None, **where):
        return self.do("delete", resource, name, body, **where)

    def patch(self, resource, name, body, media=MERGE, **where):
        return self.do("patch", resource, name, body, media=media, **where)

    def watch(self, resource, *, group="", namespace="default", **query):
        request = Request("watch", group, "v1", resource, namespace=namespace, query=query)
        return self.server.watch(request, self.now)


def pod(name, *, labels=None, node="", **container):
    spec = {"containers": [{"name": "c", "image": "nginx", **container}]}
    if node:
        spec["nodeName"] = node
    meta = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def deployment(name, replicas=1):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    }


def events(watcher):
    return [(event.type, event.object.name) for event in watcher.drain()]
