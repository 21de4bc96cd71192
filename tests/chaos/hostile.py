"""Bodies made to take long: each is to be answered within a second, as upstream answers it or refused.

Shared by the tests, which look at the answers, and by `bench/bench_hostile.py`, which measures them.
"""

import json
from collections.abc import Iterator

from attrs import Factory, evolve, frozen

from controlplane.api.request import ADMIN
from controlplane.apiserver.front.answering import HttpAnswer, answer
from controlplane.apiserver.requests.routing import HttpRequest
from tests.apiserver.world import APPLY, JSON_PATCH, MERGE, STRATEGIC, World
from tests.chaos.hostile_objects import (
    _deep_json,
    _levels,
    definition,
    nested,
    pod,
    template,
    thing,
)

CORE = "/api/v1/namespaces/default"
PODS = f"{CORE}/pods"
MAPS = f"{CORE}/configmaps"
APPS = "/apis/apps/v1/namespaces/default/deployments"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/x.io/v1/namespaces/default/things"
YAML = "application/yaml"
JSON = "application/json"
LIMIT = 3 * 1024 * 1024
DEEP = 900


@frozen
class Hostile:
    """One request of the kind. `codes`: what may be answered."""

    name: str
    method: str
    path: str
    body: object
    """Bytes, or what is sent as JSON."""
    media: str = JSON
    query: dict[str, str] = Factory(dict)
    codes: tuple[int, ...] = (400, 413, 422)

    @property
    def raw(self) -> bytes:
        """The bytes that are sent."""
        if isinstance(self.body, bytes):
            return self.body
        raw = json.dumps(self.body, separators=(",", ":")).encode()
        assert len(raw) <= LIMIT, f"{self.name}: {len(raw)} bytes"
        return raw

    def send(self, world: World) -> HttpAnswer:
        """The answer of a server in process."""
        headers = {"content-type": self.media, "accept": JSON, "user-agent": "hostile/1"}
        query = {key: [value] for key, value in self.query.items()}
        found = answer(
            world.server,
            HttpRequest(self.method, self.path, query, headers, self.raw, ADMIN),
            world.now,
        )
        world.server.advance()
        assert isinstance(found, HttpAnswer)
        return found


SPEC = {
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    "numbers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
    "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
            "items": {"type": "object", "required": ["a"], "properties": {
                "a": {"type": "string"}, "b": {"type": "string"}}}},
    "objects": {"type": "array", "x-kubernetes-list-type": "set", "items": {
        "type": "object", "x-kubernetes-map-type": "atomic",
        "properties": {"a": {"type": "string"}}}},
    "list": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
    "word": {"type": "string", "pattern": "^(a+)+$"},
    "texts": {"type": "object", "additionalProperties": {"type": "string", "pattern": "^(x+x+)+y$"}},
    "maps": {"type": "object", "additionalProperties": {
        "type": "object", "additionalProperties": {"type": "string"}}},
    "formats": {"type": "object", "properties": {
        name: {"type": "string", "format": name} for name in (
            "date", "byte", "duration", "email", "hostname", "uri", "uuid", "mac", "ipv4", "ipv6",
            "cidr", "isbn", "creditcard", "ssn", "hexcolor", "rgbcolor", "date-time", "password",
            "bsonobjectid", "k8s-short-name", "k8s-long-name")}},
    "self": {"type": "array", "maxItems": 100_000, "items": {"type": "integer"},
             "x-kubernetes-validations": [{"rule": "self.all(x, x < 10)", "message": "small"}]},
    "matched": {"type": "string", "maxLength": 100_000, "x-kubernetes-validations": [
        {"rule": "self.matches('^(a+)+$')", "message": "all a"}]},
}  # fmt: skip


def prepared() -> World:
    """A server with a definition, one object of it, a pod, a map and a deployment."""
    world = World()
    many = {f"k{n}": "v" for n in range(2000)}
    for path, body in (
        (CRDS, definition(SPEC)),
        (THINGS, thing("o", {"any": {"x": [0] * 2000}})),
        (MAPS, {"metadata": {"name": "m"}, "data": many}),
        (PODS, {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        (APPS, template({"containers": [{"name": "c", "image": "i"}]})),
    ):
        found = Hostile("", "POST", path, json.dumps(body).encode()).send(world)
        assert found.code == 201, found.tree
    return world


def hostile() -> Iterator[Hostile]:
    """All of them."""
    parts = (_texts, _metadata, _pods, _kinds, _custom, _definitions, _patches, _full, _queries)
    for part in parts:
        for each in part():
            yield evolve(each, codes=(*each.codes, 504)) if each.name in _LONG else each


_LONG = frozenset((
    "20,000 owners, all controllers", "100,000 bad finalizers", "100,000 bad labels",
    "100,000 bad annotations",  # the answer would be of 66 MB, every text of it twice
    "custom: 100,000 items of the wrong type", "pod: 40,000 bad resources",
    "storage class: 20,000 equal terms", "quota: 100,000 scopes",
    "custom: a key of 1,000,000 letters over 50,000",
))  # fmt: skip
"""What is answered with so much, or after so much, that upstream would run out of time as well."""


def _json(
    name, path, body, *, method="POST", codes=(400, 413, 422), media=JSON, **query
) -> Hostile:
    return Hostile(name, method, path, body, media, query, codes)


def _texts() -> Iterator[Hostile]:
    fill = LIMIT - 200
    for media in (JSON, YAML):
        where = media.rpartition("/")[2]
        yield Hostile(f"{where}: 3 MiB of [", "POST", MAPS, b"[" * fill, media)
        yield Hostile(f"{where}: 3 MiB of {{", "POST", MAPS, b'{"a":' * (fill // 5), media)
        yield Hostile(f"{where}: more than 3 MiB", "POST", MAPS, b" " * (LIMIT + 1), media)
        yield Hostile(f"{where}: 3 MiB of spaces", "POST", MAPS, b" " * fill, media)
        yield Hostile(f"{where}: 3 MiB of quotes", "POST", MAPS, b'"' * fill, media)
        yield Hostile(f"{where}: 3 MiB of one number", "POST", MAPS,
                      b'{"a":' + b"9" * fill + b"}", media)  # fmt: skip
        yield Hostile(f"{where}: 3 MiB of empty objects", "POST", MAPS,
                      b'{"x": [' + b"{}," * (fill // 3) + b"{}]}", media, codes=(400, 422, 504))  # fmt: skip
        yield Hostile(f"{where}: 3 MiB of numbers", "POST", MAPS,
                      b'{"x": [' + b"1," * (fill // 2) + b"1]}", media, codes=(400, 422, 504))  # fmt: skip
        yield Hostile(f"{where}: 3 MiB of unknown keys", "POST", MAPS, b"{" + b",".join(
            b'"%d":0' % n for n in range(fill // 11)) + b"}", media, codes=(400, 422, 504))  # fmt: skip
        yield Hostile(f"{where}: one key 300,000 times", "POST", MAPS,
                      b'{"x": 1' + b',"x": 1' * 300_000 + b"}", media, codes=(400, 422, 504))  # fmt: skip
        yield Hostile(f"{where}: broken at the end", "POST", MAPS, b"{" + b",".join(
            b'"%d":0' % n for n in range(fill // 11)), media, codes=(400, 504))  # fmt: skip
    for name, raw in {
        "- in one line": b"- " * (fill // 2), "? in one line": b"? " * (fill // 2),
        "- in lines": b"- a\n" * (fill // 4), "anchors": b"".join(
            b"a%d: &a%d 1\n" % (n, n) for n in range(120_000)),
        "aliases": b"a: &a 1\nb:\n" + b"- *a\n" * (fill // 6),
        "directives": b"%TAG !a! x\n" * (fill // 11), "documents": b"---\n" * (fill // 4),
        "tags": b"- !!str a\n" * (fill // 10), "comments": b"#\n" * (fill // 2),
        "blanks": b"a: |\n" + b" \n" * (fill // 2), "folded": b"a: >\n" + b" b\n" * (fill // 3),
        "a plain text of lines": b"a:\n" + b" b\n" * (fill // 3),
        "a quoted text of lines": b'a: "' + b"\n" * fill + b'"',
        "merge keys": b"a: &a {b: 1}\nc: {" + b"<<: *a, " * (fill // 9) + b"}",
        "tabs": b"a:\t" * (fill // 3), "colons": b"a:" * (fill // 2), "long key": b"a" * fill + b": 1",
        "flow ?": b"{" + b"? " * (fill // 2), "escapes": b'a: "' + rb"\x41" * (fill // 4) + b'"',
        "quotes in turn": b"- 'a'\n- \"b\"\n" * (fill // 12),
    }.items():  # fmt: skip
        yield Hostile(f"yaml: {name}", "POST", MAPS, raw, YAML, codes=(400, 422, 504))
        yield Hostile(f"apply: {name}", "PATCH", f"{MAPS}/m", raw, APPLY, {"fieldManager": "x"},
                      codes=(400, 422, 504))  # fmt: skip
    prefix = b"k8s\x00"
    for name, raw in {
        "a length of 2^63": b"\x12" + b"\xff" * 8 + b"\x7f", "a varint without end": b"\x80" * fill,
        "levels": b"\x0a\xff\xff\xff\x01" * (fill // 5), "empty fields": b"\x12\x00" * (fill // 2),
        "groups": b"\x0b" * fill,
    }.items():  # fmt: skip
        yield Hostile(f"protobuf: {name}", "POST", MAPS, prefix + raw,
                      "application/vnd.kubernetes.protobuf")  # fmt: skip


def _metadata() -> Iterator[Hostile]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a"}
    owners = [{**owner, "uid": f"u{n}"} for n in range(20_000)]
    ok = (201, 422)
    yield _json("20,000 owners", MAPS, {"metadata": {"name": "x1", "ownerReferences": owners}},
                codes=ok)  # fmt: skip
    yield _json("20,000 owners, all the same", MAPS, {"metadata": {"name": "x2", "ownerReferences":
                [{**owner, "uid": "u"}] * 20_000}}, codes=ok)  # fmt: skip
    yield _json("20,000 owners, all controllers", MAPS, {"metadata": {"name": "x3",
                "ownerReferences": [{**each, "controller": True} for each in owners]}})  # fmt: skip
    yield _json("100,000 finalizers", MAPS,
                {"metadata": {"name": "x4", "finalizers": [f"a.io/{n}" for n in range(100_000)]}},
                codes=ok)  # fmt: skip
    yield _json("100,000 bad finalizers", MAPS,
                {"metadata": {"name": "x5", "finalizers": [f"-{n}" for n in range(100_000)]}})  # fmt: skip
    for what in ("labels", "annotations"):
        yield _json(f"100,000 {what}", MAPS, {"metadata": {"name": f"x6{what}", what: {
            f"k{n}": "v" for n in range(100_000)}}}, codes=ok)  # fmt: skip
        yield _json(f"100,000 bad {what}", MAPS, {"metadata": {"name": "x7", what: {
            f"-{n}-": "-v-" for n in range(100_000)}}})  # fmt: skip
    fields = {f"f:k{n}": {} for n in range(40_000)}
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    yield _json("10,000 managers", MAPS, {"metadata": {"name": "x8", "managedFields": [
        {**entry, "manager": f"m{n}", "fieldsV1": {"f:data": {}}} for n in range(10_000)]}},
        codes=ok)  # fmt: skip
    yield _json("40,000 managed fields", MAPS, {"metadata": {"name": "x9", "managedFields": [
        {**entry, "manager": "m", "fieldsV1": {"f:data": fields}}]}}, codes=ok)  # fmt: skip
    yield _json("40,000 managed items", MAPS, {"metadata": {"name": "x10", "managedFields": [
        {**entry, "manager": "m", "fieldsV1": {"f:data": {
            f'k:{{"a":"{n}"}}': {} for n in range(40_000)}}}]}}, codes=ok)  # fmt: skip
    deep = nested(480, {}, "f:a")
    yield _json("480 levels of managed fields", MAPS, {"metadata": {"name": "x11", "managedFields": [
        {**entry, "manager": "m", "fieldsV1": deep}]}}, codes=ok)  # fmt: skip
    yield _json("900 levels of managed fields", MAPS, {"metadata": {"name": "x12", "managedFields": [
        {**entry, "manager": "m", "fieldsV1": nested(900, {}, "f:a")}]}})  # fmt: skip
    for name, text in {"a": "a" * 1_200_000, "a-": "a-" * 600_000, "a.": "a." * 600_000,
                       "a-.": "a-." * 400_000, "/": "/" * 1_200_000, "A": "A" * 1_200_000}.items():  # fmt: skip
        yield _json(f"a name of {name}", MAPS, {"metadata": {"name": text}})
        yield _json(f"a generated name of {name}", MAPS, {"metadata": {"generateName": text}})
        yield _json(f"a label of {name}", MAPS, {"metadata": {"name": "x", "labels": {text: text}}})
        yield _json(
            f"a finalizer of {name}", MAPS, {"metadata": {"name": "x", "finalizers": [text]}}
        )
        yield _json(
            f"a key of data of {name}", MAPS, {"metadata": {"name": "x"}, "data": {text: ""}}
        )


def _pods() -> Iterator[Hostile]:
    ok = (201, 422)
    container = {"name": "c", "image": "i"}

    def one(**more) -> dict:
        return pod(containers=[{**container, **more}])

    bodies = {
        "20,000 containers": pod(containers=[{"name": f"c{n}", "image": "i"} for n in range(20_000)]),
        "20,000 containers of one name": pod(containers=[container] * 20_000),
        "20,000 empty containers": pod(containers=[{}] * 20_000),
        "20,000 init containers": pod(initContainers=[
            {"name": f"c{n}", "image": "i"} for n in range(20_000)]),
        "20,000 containers with a port": pod(containers=[
            {"name": f"c{n}", "image": "i", "ports": [{"containerPort": n + 1, "hostPort": n + 1}]}
            for n in range(20_000)], hostNetwork=True),
        "40,000 ports": one(ports=[{"containerPort": n + 1} for n in range(40_000)]),
        "40,000 named ports": one(ports=[{"containerPort": 1, "name": f"p{n}"} for n in range(40_000)]),
        "40,000 host ports": one(ports=[{"containerPort": 80, "hostPort": n + 1}
                                        for n in range(40_000)]),
        "40,000 equal ports": one(ports=[{"containerPort": 80, "hostPort": 80, "name": "a"}] * 40_000),
        "40,000 variables": one(env=[{"name": f"E{n}", "value": "v"} for n in range(40_000)]),
        "40,000 equal variables": one(env=[{"name": "E", "value": "v"}] * 40_000),
        "20,000 sources of variables": one(envFrom=[{"configMapRef": {"name": f"m{n}"}}
                                                    for n in range(20_000)]),
        "20,000 volumes": pod(volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(20_000)]),
        "20,000 equal volumes": pod(volumes=[{"name": "v", "emptyDir": {}}] * 20_000),
        "20,000 mounts": pod(
            volumes=[{"name": "v", "emptyDir": {}}],
            containers=[{**container, "volumeMounts": [
                {"name": "v", "mountPath": f"/m{n}"} for n in range(20_000)]}]),
        "20,000 unknown mounts": one(volumeMounts=[
            {"name": f"v{n}", "mountPath": f"/m{n}"} for n in range(20_000)]),
        "5,000 volumes, 5,000 mounts": pod(
            volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(5_000)],
            containers=[{**container, "volumeMounts": [
                {"name": f"v{n}", "mountPath": f"/m{n}"} for n in range(5_000)]}]),
        "20,000 projected items": pod(volumes=[{"name": "v", "projected": {"sources": [
            {"configMap": {"name": "m", "items": [
                {"key": f"k{n}", "path": f"p{n}"} for n in range(20_000)]}}]}}]),
        "20,000 projected sources": pod(volumes=[{"name": "v", "projected": {"sources": [
            {"configMap": {"name": f"m{n}"}} for n in range(20_000)]}}]),
        "20,000 tolerations": pod(tolerations=[
            {"key": f"k{n}", "operator": "Exists"} for n in range(20_000)]),
        "20,000 bad tolerations": pod(tolerations=[{"operator": "x", "effect": "y"}] * 20_000),
        "20,000 spread constraints": pod(topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": f"k{n}", "whenUnsatisfiable": "DoNotSchedule"}
            for n in range(20_000)]),
        "20,000 equal spread constraints": pod(topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"}] * 20_000),
        "20,000 affinity terms": pod(affinity={"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "z", "labelSelector": {"matchLabels": {"a": f"b{n}"}}}
                for n in range(20_000)]}}),
        "50,000 node expressions": pod(affinity={"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": f"k{n}", "operator": "Exists"}
                                      for n in range(50_000)]}]}}}),
        "100,000 values of an expression": pod(affinity={"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "k", "operator": "In",
                                       "values": [f"v{n}" for n in range(100_000)]}]}]}}}),
        "20,000 host aliases": pod(hostAliases=[{"ip": "1.2.3.4", "hostnames": ["a"]}] * 20_000),
        "40,000 pull secrets": pod(imagePullSecrets=[{"name": f"s{n}"} for n in range(40_000)]),
        "40,000 gates": pod(schedulingGates=[{"name": f"g{n}"} for n in range(40_000)]),
        "40,000 equal gates": pod(schedulingGates=[{"name": "g"}] * 40_000),
        "40,000 readiness gates": pod(readinessGates=[{"conditionType": f"g{n}"}
                                                      for n in range(40_000)]),
        "40,000 resource claims": pod(resourceClaims=[{"name": f"c{n}", "resourceClaimName": "x"}
                                                      for n in range(40_000)]),
        "5,000 claims, each used": pod(
            resourceClaims=[{"name": f"c{n}", "resourceClaimName": "x"} for n in range(5_000)],
            containers=[{**container, "resources": {"claims": [
                {"name": f"c{n}"} for n in range(5_000)]}}]),
        "40,000 resources": one(resources={"limits": {f"a.io/r{n}": "1" for n in range(40_000)}}),
        "40,000 bad resources": one(resources={"limits": {f"r{n}": "-1" for n in range(40_000)}}),
        "40,000 sysctls": pod(securityContext={"sysctls": [
            {"name": f"a.b{n}", "value": "1"} for n in range(40_000)]}),
        "40,000 groups": pod(securityContext={"supplementalGroups": list(range(40_000))}),
        "40,000 capabilities": one(securityContext={"capabilities": {
            "add": [f"C{n}" for n in range(40_000)]}}),
        "40,000 resize policies": one(resizePolicy=[
            {"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 40_000),
        "40,000 name servers": pod(dnsPolicy="None", dnsConfig={
            "nameservers": [f"1.2.{n // 200}.{n % 200}" for n in range(40_000)],
            "searches": [f"a{n}.b" for n in range(40_000)]}),
        "40,000 node selectors": pod(nodeSelector={f"k{n}": "v" for n in range(40_000)}),
        "a quantity of 1,000,000 digits": one(resources={"limits": {"cpu": "9" * 1_000_000}}),
        "a quantity of 1,000,000 zeroes": one(resources={"limits": {"cpu": "0." + "0" * 10**6 + "1"}}),
        "a quantity with a long exponent": one(resources={"limits": {"cpu": "1e" + "9" * 100_000}}),
        "a quantity with a large exponent": one(resources={"limits": {"cpu": "1e999999999"}}),
        "iqn": pod(volumes=[{"name": "v", "iscsi": {
            "targetPortal": "1.2.3.4:1", "iqn": "iqn.2020-01." + "a" * 200_000 + "!", "lun": 0}}]),
        "a mount path": one(volumeMounts=[{"name": "v", "mountPath": "/../" * 300_000}]),
        "an image": pod(containers=[{"name": "c", "image": "a/" * 800_000 + "!"}]),
        "an image of dots": pod(containers=[{"name": "c", "image": "a." * 800_000 + "!"}]),
        "an image of dashes": pod(containers=[{"name": "c", "image": "a-" * 800_000 + "_!"}]),
        "an image of underscores": pod(containers=[{"name": "c", "image": "a" + "_" * 10**6 + "!"}]),
        "a sysctl": pod(securityContext={"sysctls": [{"name": "a" * 200_000 + "!", "value": ""}]}),
        "a sysctl of dots": pod(securityContext={"sysctls": [
            {"name": "a." * 120 + "!", "value": ""}]}),
        "a sysctl of 250 letters": pod(securityContext={"sysctls": [
            {"name": "a" * 250 + "!", "value": ""}]}),
        "expansions": one(command=["$(A)" * 700_000], env=[{"name": "A", "value": "$(A)" * 1000}]),
        "a field path": one(env=[{"name": "E", "valueFrom": {"fieldRef": {
            "fieldPath": "metadata.labels" + "['" * 500_000}}}]),
    }  # fmt: skip
    for name, body in bodies.items():
        yield _json(f"pod: {name}", PODS, body, codes=(400, 413, *ok), dryRun="All")
    for name in ("20,000 containers", "40,000 ports", "40,000 variables", "20,000 volumes"):
        spec = bodies[name]["spec"]
        other = {**template(spec), "metadata": {"name": "other"}}
        yield _json(f"deployment: {name}", APPS, other, codes=ok, dryRun="All")
        apply = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        yield _json(f"apply: {name}", f"{PODS}/p", apply, method="PATCH", media=APPLY,
                    codes=(201, 400, 422, 500), fieldManager="x", dryRun="All")  # fmt: skip
        yield _json(f"strategic: {name}", f"{PODS}/a", {"spec": spec}, method="PATCH",
                    media=STRATEGIC, codes=(200, 400, 422), dryRun="All")  # fmt: skip


def _kinds() -> Iterator[Hostile]:
    ok = (201, 400, 422)

    def sent(name, path, body):
        return _json(name, path, body, codes=ok, dryRun="All")

    yield sent("storage class: 20,000 equal terms", "/apis/storage.k8s.io/v1/storageclasses", {
        "metadata": {"name": "s"}, "provisioner": "p", "allowedTopologies": [
            {"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}] * 20_000})  # fmt: skip
    yield sent("quota: 100,000 scopes", f"{CORE}/resourcequotas", {"metadata": {"name": "s"}, "spec": {
        "hard": {"services": "1", "secrets": "1"}, "scopes": ["BestEffort"] * 100_000}})  # fmt: skip
    yield sent("service: 40,000 ports", f"{CORE}/services", {"metadata": {"name": "s"}, "spec": {
        "ports": [{"name": f"p{n}", "port": n + 1} for n in range(40_000)]}})  # fmt: skip
    yield sent("service: 40,000 equal ports", f"{CORE}/services", {"metadata": {"name": "s"}, "spec": {
        "ports": [{"name": "p", "port": 1}] * 40_000}})  # fmt: skip
    yield sent("service: 40,000 addresses", f"{CORE}/services", {"metadata": {"name": "s"}, "spec": {
        "ports": [{"port": 1}], "externalIPs": ["1.2.3.4"] * 40_000,
        "loadBalancerSourceRanges": ["1.2.3.4/8"] * 40_000}})  # fmt: skip
    expressions = [{"key": f"k{n}", "operator": "Exists"} for n in range(50_000)]
    body = template({"containers": [{"name": "c", "image": "i"}]})
    body["spec"]["selector"] = {"matchExpressions": expressions}
    yield sent("deployment: 50,000 requirements", APPS, body)
    yield sent("config map: 100,000 keys", MAPS,
               {"metadata": {"name": "x"}, "data": {f"k{n}": "v" for n in range(100_000)}})  # fmt: skip
    yield sent("config map: 100,000 keys in both", MAPS,
               {"metadata": {"name": "x"}, "data": {f"k{n}": "v" for n in range(60_000)},
                "binaryData": {f"k{n}": "" for n in range(60_000)}})  # fmt: skip
    yield sent("secret: 100,000 keys", f"{CORE}/secrets",
               {"metadata": {"name": "x"}, "stringData": {f"k{n}": "v" for n in range(100_000)}})  # fmt: skip
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}] * 40_000
    yield sent("role: 40,000 rules", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
               {"metadata": {"name": "r"}, "rules": rules})  # fmt: skip
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    yield sent("endpoint slice: 20,000 endpoints", slices, {
        "metadata": {"name": "e"}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["1.2.3.4"]}] * 20_000, "ports": [{"name": "a"}]})  # fmt: skip
    yield sent("endpoint slice: 40,000 ports", slices, {
        "metadata": {"name": "e"}, "addressType": "IPv4", "endpoints": [],
        "ports": [{"name": f"p{n}", "port": n} for n in range(40_000)]})  # fmt: skip
    policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    yield sent("network policy: 40,000 peers", policies, {
        "metadata": {"name": "n"}, "spec": {"podSelector": {}, "ingress": [{"from": [
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}] * 30_000}]}})  # fmt: skip
    ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
    backend = {"service": {"name": "s", "port": {"number": 1}}}
    yield sent("ingress: 10,000 paths", ingresses, {"metadata": {"name": "i"}, "spec": {"rules": [
        {"host": f"h{n}.io", "http": {"paths": [{"path": "/a", "pathType": "Exact",
                                                 "backend": backend}]}} for n in range(10_000)]}})  # fmt: skip
    yield sent("node: 40,000 taints", "/api/v1/nodes", {"metadata": {"name": "n"}, "spec": {"taints": [
        {"key": f"k{n}", "effect": "NoSchedule"} for n in range(40_000)]}})  # fmt: skip
    yield sent("node: 40,000 equal taints", "/api/v1/nodes", {"metadata": {"name": "n"}, "spec": {
        "taints": [{"key": "k", "effect": "NoSchedule"}] * 40_000}})  # fmt: skip
    yield sent("namespace: 40,000 finalizers", "/api/v1/namespaces", {
        "metadata": {"name": "n"}, "spec": {"finalizers": [f"a.io/{n}" for n in range(40_000)]}})  # fmt: skip
    yield sent("stateful set: 5,000 claims", "/apis/apps/v1/namespaces/default/statefulsets", {
        "metadata": {"name": "d"}, "spec": {**body["spec"], "selector": {"matchLabels": {"app": "a"}},
            "serviceName": "s", "volumeClaimTemplates": [
            {"metadata": {"name": f"c{n}"}, "spec": {"accessModes": ["ReadWriteOnce"],
             "resources": {"requests": {"storage": "1"}}}} for n in range(5_000)]}})  # fmt: skip
    yield sent("cron job: a long schedule", "/apis/batch/v1/namespaces/default/cronjobs", {
        "metadata": {"name": "c"}, "spec": {"schedule": "1," * 500_000 + "1 * * * *", "jobTemplate": {
            "spec": {"template": {"spec": {"restartPolicy": "Never",
                     "containers": [{"name": "c", "image": "i"}]}}}}}})  # fmt: skip
    yield sent("cron job: a long range", "/apis/batch/v1/namespaces/default/cronjobs", {
        "metadata": {"name": "c"}, "spec": {"schedule": "0-999999999999 * * * *", "jobTemplate": {
            "spec": {"template": {"spec": {"restartPolicy": "Never",
                     "containers": [{"name": "c", "image": "i"}]}}}}}})  # fmt: skip
    yield sent("job: many indexes", "/apis/batch/v1/namespaces/default/jobs", {
        "metadata": {"name": "j"}, "spec": {"completions": 2**31 - 1, "parallelism": 2**31 - 1,
            "completionMode": "Indexed", "backoffLimitPerIndex": 1,
            "successPolicy": {"rules": [{"succeededIndexes": ",".join(map(str, range(0, 20_000, 2)))}]},
            "template": {"spec": {"restartPolicy": "Never",
                                  "containers": [{"name": "c", "image": "i"}]}}}})  # fmt: skip
    yield sent("resource slice: 20,000 devices", "/apis/resource.k8s.io/v1/resourceslices", {
        "metadata": {"name": "r"}, "spec": {"driver": "d.io", "nodeName": "n", "pool": {
            "name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"d{n}"} for n in range(20_000)]}})  # fmt: skip
    yield sent("validating policy: 2,000 expressions",
               "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", {
        "metadata": {"name": "v"}, "spec": {"matchConstraints": {"resourceRules": [
            {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]},
            "validations": [{"expression": f"object.metadata.name != '{n}'"} for n in range(2_000)]}})  # fmt: skip
    yield sent("webhooks: 5,000",
               "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", {
        "metadata": {"name": "v"}, "webhooks": [{"name": f"w{n}.a.io", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://a.io/"}}
            for n in range(5_000)]})  # fmt: skip


def _custom() -> Iterator[Hostile]:
    ok = (201, 400, 422)
    specs = {
        "a set of 40,000": {"set": [f"v{n}" for n in range(40_000)]},
        "a set of 40,000 equal ones": {"set": ["v"] * 40_000},
        "a set of 100,000 numbers": {"numbers": list(range(100_000))},
        "a set of 40,000 objects": {"objects": [{"a": str(n)} for n in range(40_000)]},
        "a set of 40,000 equal objects": {"objects": [{"a": "1"}] * 40_000},
        "a map of 40,000": {"map": [{"a": str(n)} for n in range(40_000)]},
        "a map of 40,000 equal ones": {"map": [{"a": "1"}] * 40_000},
        "100,000 wrong items": {"list": ["c"] * 100_000},
        "100,000 items of the wrong type": {"list": [1] * 100_000},
        "a pattern that backtracks": {"word": "a" * 40 + "!"},
        "a pattern and a long text": {"word": "a" * 2_000_000 + "!"},
        "a key of 1,000,000 letters over 50,000": {"maps": {
            "a" * 1_000_000: {f"k{n}": "v" for n in range(50_000)}}},
        "patterns that backtrack": {"texts": {f"k{n}": "x" * 40 for n in range(1000)}},
        "a rule over 100,000": {"self": list(range(100_000))},
        "a rule whose pattern backtracks": {"matched": "a" * 90_000 + "!"},
        "unknown fields": {f"u{n}": {"a": 1} for n in range(100_000)},
        "levels": {"any": nested(480)},
        "too many levels": {"any": nested(DEEP)},
        "lists of lists": {"any": {"x": nested(480, key=None)}},
        "100,000 fields": {"any": {f"k{n}": n for n in range(100_000)}},
        "a number of 4,000 digits": {"any": {"x": int("9" * 4000)}},
    }  # fmt: skip
    for form in SPEC["formats"]["properties"]:
        for name, text in {"a": "a" * 500_000 + "!", "1": "1" * 500_000, "a.": "a." * 250_000 + "!",
                           "1:": "1:" * 300_000, "1.": "1." * 300_000, "-": "-" * 300_000,
                           "1s": "1s" * 200_000 + "!", "a@": "a@" * 300_000,
                           " ": "1" + " " * 30_000}.items():  # fmt: skip
            specs[f"format {form} of {name}"] = {"formats": {form: text}}
    for name, spec in specs.items():
        yield _json(f"custom: {name}", THINGS, thing("p", spec), codes=ok, dryRun="All")
    for name in ("a set of 40,000", "a map of 40,000", "100,000 fields", "levels", "too many levels",
                 "a set of 40,000 objects"):  # fmt: skip
        body = thing("p", specs[name])
        yield _json(f"apply custom: {name}", f"{THINGS}/p", body, method="PATCH", media=APPLY,
                    codes=(*ok, 500), fieldManager="x", dryRun="All")  # fmt: skip
        yield _json(f"merge custom: {name}", f"{THINGS}/o", {"spec": specs[name]}, method="PATCH",
                    media=MERGE, codes=(200, 400, 422), dryRun="All")  # fmt: skip


def _definitions() -> Iterator[Hostile]:
    ok = (201, 400, 422)
    text = {"type": "string"}

    def rule(source, **schema):
        return {"x": {**(schema or text), "x-kubernetes-validations": [{"rule": source}]}}

    items = {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 5}}
    specs = {
        "10,000 properties": {f"p{n}": text for n in range(10_000)},
        "200 levels": {"a": _levels(200)},
        "900 levels": {"a": _levels(900)},
        "an expression of 200 brackets": rule("(" * 200 + "true" + ")" * 200),
        "an expression of 100,000 brackets": rule("(" * 100_000 + "true" + ")" * 100_000),
        "an expression of 100,000 nots": rule("!" * 100_000 + "true"),
        "an expression of 100,000 minuses": rule("-" * 100_000 + "1 == 1"),
        "an expression of 20,000 terms": rule(" && ".join(["true"] * 20_000)),
        "an expression of 5,000 sums": rule("+".join(["1"] * 5_000) + " == 1"),
        "an expression of 100,000 sums": rule("+".join(["1"] * 100_000) + " == 1"),
        "an expression of 5,000 lists": rule("[" * 5_000 + "]" * 5_000 + " == []"),
        "an expression of 100,000 lists": rule("[" * 100_000),
        "an expression of 5,000 fields": rule("self" + ".a" * 5_000 + " == 1"),
        "an expression of 1,000 questions": rule("true ? " * 1_000 + "true" + " : true" * 1_000),
        "an expression of 100 macros": rule("self.all(a, " * 100 + "true" + ")" * 100, **items),
        "an expression of 20 macros": rule("self.all(a, " * 20 + "true" + ")" * 20, **items),
        "a text of 1 MB": rule("'" + "a" * 10**6 + "' == ''"),
        "escapes": rule("'" + r"\x41" * 200_000 + "' == ''"),
        "an open comment": rule("//" * 500_000),
        "spaces": rule(" " * 500_000), "spaces and a slash": rule(" " * 200_000 + "/"),
        "pattern that backtracks": rule("'" + "a" * 40 + "!'.matches('^(a+)+$')"),
        "a pattern of 1,000 counts": {"x": {**text, "pattern": "a{1000}" * 1000}},
        "a pattern of counts of counts": {"x": {**text, "pattern": "((a{100}){100}){100}"}},
        "a pattern of 100,000 brackets": {"x": {**text, "pattern": "(" * 100_000}},
        "a pattern of 1 MB": {"x": {**text, "pattern": "a?" * 500_000}},
        "an enumeration of 100,000": {"x": {**text, "enum": [f"v{n}" for n in range(100_000)]}},
        "required 100,000": {"x": {"type": "object", "required": [f"v{n}" for n in range(100_000)]}},
        "a default of 480 levels": {"x": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": True, "default": nested(450)}},
        "10,000 rules": {"x": {**text, "maxLength": 5, "x-kubernetes-validations": [
            {"rule": f"self != '{n}'"} for n in range(10_000)]}},
        "1,000 anyOf": {"x": {**text, "anyOf": [{"minLength": n} for n in range(1_000)]}},
        "many keys of a map": {"x": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": [f"k{n}" for n in range(10_000)],
            "items": {"type": "object", "properties": {f"k{n}": text for n in range(10_000)}}}},
    }  # fmt: skip
    for name, spec in specs.items():
        body = definition(spec)
        body["metadata"]["name"] = "others.x.io"
        body["spec"]["names"] = {"plural": "others", "kind": "Other"}
        yield _json(f"definition: {name}", CRDS, body, codes=ok, dryRun="All")
    body = definition(SPEC)
    version = body["spec"]["versions"][0]
    body["spec"]["versions"] = [
        {**version, "name": f"v{n}", "storage": n == 1} for n in range(1, 300)
    ]
    body["metadata"]["name"] = "others.x.io"
    body["spec"]["names"] = {"plural": "others", "kind": "Other"}
    yield _json("definition: 300 versions", CRDS, body, codes=ok, dryRun="All")
    version["additionalPrinterColumns"] = [
        {"name": f"c{n}", "type": "string", "jsonPath": ".spec.a" + ".b" * 20} for n in range(10_000)]  # fmt: skip
    body["spec"]["versions"] = [version]
    yield _json("definition: 10,000 columns", CRDS, body, codes=ok, dryRun="All")


def _patches() -> Iterator[Hostile]:
    ok = (200, 400, 413, 422, 500)  # what does not fit the schema of an apply is a 500 upstream

    def patch(name, path, body, media, **query):
        return _json(name, path, body, method="PATCH", media=media, codes=ok, dryRun="All", **query)

    for media in (MERGE, STRATEGIC, JSON_PATCH, APPLY):
        word = media.removeprefix("application/").partition("-")[0]
        query = {"fieldManager": "x"} if media == APPLY else {}
        for levels in (400, DEEP, 5_000):
            deep = nested(levels)
            for what, path in (
                ("map", f"{MAPS}/m"),
                ("pod", f"{PODS}/a"),
                ("thing", f"{THINGS}/o"),
            ):
                if what == "thing" and media == STRATEGIC:
                    continue
                body: object = {"apiVersion": "v1", "kind": "ConfigMap", "data": deep, "spec": deep}
                if media == JSON_PATCH:
                    body = [{"op": "add", "path": "/spec", "value": deep}]
                raw = _deep_json(body)
                yield Hostile(f"{word}: {levels} levels, {what}", "PATCH", path, raw, media,
                              {**query, "dryRun": "All"}, ok)  # fmt: skip
    thing_path = f"{THINGS}/o"
    operations = {
        "10,001 operations": [{"op": "test", "path": "/kind", "value": "Thing"}] * 10_001,
        "10,000 tests": [{"op": "test", "path": "/kind", "value": "Thing"}] * 10_000,
        "10,000 moves": [{"op": "move", "from": "/spec/any/x/0", "path": "/spec/any/x/1999"}] * 10_000,
        "10,000 moves of the whole": [{"op": "move", "from": "/spec/any", "path": "/spec/any"}] * 10_000,
        "10,000 inserts at the front": [{"op": "add", "path": "/spec/any/x/0", "value": 1}] * 10_000,
        "10,000 inserts of lists": [{"op": "add", "path": "/spec/any/x/-", "value": [0] * 50}] * 10_000,
        "10,000 removals": [{"op": "remove", "path": "/spec/any/x/0"}] * 10_000,
        "doubling copies": [{"op": "copy", "from": "/spec/any", "path": f"/spec/any/c{n}"}
                            for n in range(60)],
        "deep copies": [{"op": "copy", "from": "/spec", "path": "/spec/any/c"}] * 200,
        "10,000 copies": [{"op": "copy", "from": "/spec/any/x", "path": "/spec/any/y"}] * 10_000,
        "10,000 copies of little": [{"op": "copy", "from": "/kind", "path": f"/spec/any/k{n}"}
                                    for n in range(10_000)],
        "10,000 tests of the whole": [{"op": "test", "path": "/spec", "value": {"a": 1}}],
        "a long pointer": [{"op": "add", "path": "/a" * 500_000, "value": 1}],
        "tildes": [{"op": "add", "path": "/" + "~1" * 500_000, "value": 1}],
        "a long index": [{"op": "add", "path": "/spec/any/x/" + "9" * 10_000, "value": 1}],
        "nesting adds": [{"op": "add", "path": "/spec/any" + "/a" * n, "value": {}}
                         for n in range(1, 1200)],
    }  # fmt: skip
    for name, body in operations.items():
        yield patch(f"json patch: {name}", thing_path, body, JSON_PATCH)
    whole = [{"op": "test", "path": "/data", "value": {f"k{n}": "v" for n in range(2000)}}]
    yield patch("json patch: 100 large tests", f"{MAPS}/m", whole * 100, JSON_PATCH)
    order = {"$setElementOrder/containers": [{"name": f"c{n}"} for n in range(20_000)]}
    yield patch("strategic: an order of 20,000", f"{PODS}/a", {"spec": order}, STRATEGIC)
    yield patch("strategic: 20,000 deletions", f"{PODS}/a", {"spec": {"containers": [
        {"$patch": "delete", "name": f"c{n}"} for n in range(20_000)]}}, STRATEGIC)  # fmt: skip
    yield patch("strategic: 20,000 retained", f"{PODS}/a", {"spec": {
        "$retainKeys": [f"c{n}" for n in range(20_000)]}}, STRATEGIC)  # fmt: skip
    yield patch("strategic: 40,000 retained of 40,000", f"{PODS}/a", {"spec": {
        "$retainKeys": [f"c{n}" for n in range(40_000)],
        **{f"c{n}": "v" for n in range(40_000)}}}, STRATEGIC)  # fmt: skip
    yield patch("strategic: 40,000 deleted finalizers", f"{PODS}/a", {"metadata": {
        "$deleteFromPrimitiveList/finalizers": [f"c{n}" for n in range(40_000)],
        "finalizers": [f"a.io/{n}" for n in range(40_000)]}}, STRATEGIC)  # fmt: skip
    yield patch("merge: 100,000 keys", f"{MAPS}/m",
                {"data": {f"n{n}": "v" for n in range(100_000)}}, MERGE)  # fmt: skip
    yield patch("merge: 100,000 keys away", f"{MAPS}/m",
                {"data": {f"n{n}": None for n in range(100_000)}}, MERGE)  # fmt: skip
    yield patch("apply: 100,000 keys", f"{MAPS}/m", {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"},
        "data": {f"n{n}": "v" for n in range(100_000)}}, APPLY, fieldManager="x", force="true")  # fmt: skip


def _full() -> Iterator[Hostile]:
    """Bodies of the full size, of as many parts as fit."""
    items = {
        "data": (MAPS, {"data": {}}, '"%x":""'),
        "labels": (MAPS, {"metadata": {"name": "p", "labels": {}}}, '"%x":""'),
        "finalizers": (MAPS, {"metadata": {"name": "p", "finalizers": []}}, '"a/%x"'),
        "empty owners": (MAPS, {"metadata": {"name": "p", "ownerReferences": []}}, "{}"),
        "tolerations": (PODS, {"spec": {"containers": [], "tolerations": []}}, "{}"),
        "containers": (PODS, {"spec": {"containers": []}}, '{"name":"%x"}'),
        "volumes": (PODS, {"spec": {"volumes": []}}, '{"name":"%x"}'),
        "equal ports": (PODS, {"spec": {"containers": [{"name": "c", "ports": []}]}},
                        '{"containerPort":1}'),
        "variables": (PODS, {"spec": {"containers": [{"name": "c", "env": []}]}}, '{"name":"%x"}'),
        "resources": (PODS, {"spec": {"containers": [{"name": "c", "image": "i", "resources": {
            "limits": {}}}]}}, '"a/%x":1'),
        "a map of a thing": (THINGS, {"spec": {"map": []}}, '{"a":"%x"}'),
        "anything in a thing": (THINGS, {"spec": {"any": {}}}, '"%x":""'),
    }  # fmt: skip
    kinds = {MAPS: ("v1", "ConfigMap"), PODS: ("v1", "Pod"), THINGS: ("x.io/v1", "Thing")}
    codes = (200, 201, 400, 422, 500, 504)  # what does not fit the schema of an apply is a 500
    for name, (path, shape, item) in items.items():
        version, kind = kinds[path]
        tree = {"apiVersion": version, "kind": kind, "metadata": {"name": "p"}, **shape}
        raw = _filled(tree, item)
        yield Hostile(f"full: {name}", "POST", path, raw, JSON, {"dryRun": "All"}, codes)
        yield Hostile(f"full apply: {name}", "PATCH", f"{path}/p", raw, APPLY,
                      {"fieldManager": "x", "dryRun": "All"}, codes)  # fmt: skip


def _filled(tree: dict, item: str) -> bytes:
    """The tree as JSON, its last empty list or map filled with as many items as fit."""
    text = json.dumps(tree, separators=(",", ":"))
    at = max(text.rfind("[]"), text.rfind("{}")) + 1
    room, parts = LIMIT - len(text) - 100, []
    while room > 0:
        parts.append(item % len(parts) if "%" in item else item)
        room -= len(parts[-1]) + 1
    return f"{text[:at]}{','.join(parts[:-1])}{text[at:]}".encode()


def _queries() -> Iterator[Hostile]:
    ok = (200, 400, 410, 422)
    selectors = {
        "100,000 requirements": ",".join(f"k{n}" for n in range(100_000)),
        "100,000 values": "k in (" + ",".join(f"v{n}" for n in range(100_000)) + ")",
        "brackets": "k in " + "(" * 200_000, "commas": "," * 500_000, "bangs": "!" * 500_000,
        "spaces": " " * 500_000, "equals": "=" * 500_000, "letters": "a" * 500_000,
        "dashes": "a-" * 300_000, "escapes": "metadata.name=" + "\\=" * 300_000,
    }  # fmt: skip
    for name, text in selectors.items():
        yield Hostile(f"label selector: {name}", "GET", PODS, b"", query={"labelSelector": text},
                      codes=ok)  # fmt: skip
        yield Hostile(f"field selector: {name}", "GET", PODS, b"", query={"fieldSelector": text},
                      codes=ok)  # fmt: skip
    for key in ("resourceVersion", "continue", "limit", "timeoutSeconds", "dryRun", "fieldManager",
                "fieldValidation", "force", "resourceVersionMatch", "propagationPolicy"):  # fmt: skip
        for text in ("9" * 500_000, "-" * 500_000, "e" * 500_000, "W" * 500_000):
            yield Hostile(f"{key}={text[0]}...", "GET", PODS, b"", query={key: text}, codes=ok)
            yield Hostile(f"delete: {key}={text[0]}...", "DELETE", f"{PODS}/none", b"",
                          query={key: text}, codes=(400, 404, 422))  # fmt: skip
