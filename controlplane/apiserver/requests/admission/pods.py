"""Admission of pods: service account, priority, tolerations, runtime class.

Upstream: plugin/pkg/admission/{serviceaccount,priority,defaulttolerationseconds,runtimeclass}.
"""

from __future__ import annotations

from hashlib import blake2b

import msgpack

from controlplane.api import quantity
from controlplane.api.equality import Seen
from controlplane.api.pod import CONFIG_MIRROR
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.names import path_segment
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.schema import status
from controlplane.sharing.memory import KEPT, by_identity

__all__ = [
    "default_tolerations",
    "overhead_check",
    "priority",
    "priority_class_check",
    "runtime_class",
    "service_account",
]

_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
_TOKEN_VOLUME = "kube-api-access-"  # noqa: S105 - a name
_TOLERATIONS = tuple(
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
)


def _skip(ctx: Context) -> bool:
    return bool(ctx.request.subresource)


def default_tolerations(ctx: Context, tree: Tree, _old: Tree | None) -> Tree:
    """Every pod tolerates an unready or unreachable node for five minutes."""
    if _skip(ctx):
        return tree
    spec = tree["spec"]
    tolerations = spec.get("tolerations", [])
    missing = []
    for wanted in _TOLERATIONS:
        for toleration in tolerations:
            if toleration.get("key", "") in ("", wanted["key"]) and toleration.get(
                "effect", ""
            ) in ("", "NoExecute"):
                break
        else:
            missing.append(wanted)
    if not missing:
        return tree
    return {**tree, "spec": {**spec, "tolerations": [*tolerations, *missing]}}


def priority(ctx: Context, tree: Tree, old: Tree | None) -> Tree:
    """Resolve the priority class of a new pod."""
    if _skip(ctx):
        return tree
    spec = tree["spec"]
    if old is not None:
        was = old["spec"]
        if "priority" not in spec and "priority" in was:
            spec = {**spec, "priority": was["priority"]}
        if "preemptionPolicy" not in spec and "preemptionPolicy" in was:
            spec = {**spec, "preemptionPolicy": was["preemptionPolicy"]}
        return tree if spec is tree["spec"] else {**tree, "spec": spec}
    name = spec.get("priorityClassName", "")
    policy = "PreemptLowerPriority"
    if name:
        found = class_by_name(ctx, tree, name)
        value = found["value"]
        policy = found.get("preemptionPolicy", policy)
    else:
        name, value, policy = global_default(ctx)
    given = spec.get("priority")
    if given is not None and given != value:
        raise status.forbidden(
            ctx.info,
            status.told_name(tree),
            f"the integer value of priority ({given}) must not be provided in pod spec; priority "
            f"admission controller computed {value} from the given PriorityClass name",
        )
    given_policy = spec.get("preemptionPolicy")
    if given_policy is not None and given_policy != policy:
        raise status.forbidden(
            ctx.info,
            status.told_name(tree),
            f"the string value of PreemptionPolicy ({given_policy}) must not be provided in pod "
            f"spec; priority admission controller computed {policy} from the given PriorityClass "
            "name",
        )
    spec = {**spec, "priority": value, "preemptionPolicy": policy}
    if name:
        spec["priorityClassName"] = name
    return {**tree, "spec": spec}


def class_by_name(ctx: Context, tree: Tree, name: str) -> Tree:
    """The priority class that an object names. Raises ApiError."""
    found = ctx.find("scheduling.k8s.io", "priorityclasses", "", name)
    if found is None:
        raise status.forbidden(
            ctx.info,
            status.told_name(tree),
            f"no PriorityClass with name {name} was found",
        )
    return found.tree


def global_default(ctx: Context) -> tuple[str, int, str]:
    """The class for what names none, its value and policy: the global default of the lowest value."""
    best: Tree | None = None
    for obj in ctx.lookup.all("scheduling.k8s.io", "priorityclasses"):
        tree = obj.tree
        if tree.get("globalDefault") and (best is None or tree["value"] < best["value"]):
            best = tree
    if best is None:
        return "", 0, "PreemptLowerPriority"
    return (
        best["metadata"]["name"],
        best["value"],
        best.get("preemptionPolicy", "PreemptLowerPriority"),
    )


def priority_class_check(ctx: Context, tree: Tree, old: Tree | None) -> None:
    """At most one priority class is the global default."""
    if not tree.get("globalDefault") or (old is not None and old.get("globalDefault")):
        return
    for other in ctx.lookup.all("scheduling.k8s.io", "priorityclasses"):
        if other.tree.get("globalDefault") and other.name != tree["metadata"]["name"]:
            raise status.forbidden(
                ctx.info,
                tree["metadata"]["name"],
                f"PriorityClass {other.name} is already marked as default. Only one default can "
                "exist",
            )


class TokenVolumes:
    """The names of token volumes that one server generated, by the specs that they were added to.

    Upstream generates a name for every pod, and only that pod's own mounts refer to it. Here pods
    with equal specs get the first one's: so their specs stay equal, and are stored, validated and decoded as
    one. Each pod draws a name all the same, as later names depend on the number of draws.
    """

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}

    def name(self, spec: Tree, drawn: str) -> str:
        """The name for a pod that came with a spec. What is remembered depends on what was asked alone."""
        key = _digest(spec)
        if key is None:
            return drawn
        if len(self._names) >= KEPT:
            self._names.clear()
        return self._names.setdefault(key, drawn)


@by_identity
def _digest(spec: Tree) -> bytes | None:
    """Return a digest that identifies a spec, None if it cannot be packed."""
    try:
        packed: bytes = msgpack.packb(spec)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    return blake2b(packed, digest_size=16).digest()


def service_account(
    ctx: Context, tree: Tree, old: Tree | None, *, volumes: TokenVolumes | None = None
) -> Tree:
    """Every pod runs as a service account that exists, with its token mounted."""
    if _skip(ctx) or old is not None:
        return tree
    meta, spec = tree["metadata"], tree["spec"]
    name = status.told_name(tree)
    if CONFIG_MIRROR in meta.get("annotations", ()):
        if spec.get("serviceAccountName"):
            raise status.forbidden(
                ctx.info, name, "a mirror pod may not reference service accounts"
            )
        return tree
    account = spec.get("serviceAccountName") or "default"
    found = ctx.find("", "serviceaccounts", ctx.request.namespace, account)
    if found is None:
        problems = path_segment(account)  # such a name is not even asked for
        why = f'serviceaccount "{account}" not found'
        if problems:
            why = f'invalid resource name "{account}": [{" ".join(problems)}]'
        raise status.forbidden(
            ctx.info,
            name,
            f"error looking up service account {ctx.request.namespace}/{account}: {why}",
        )
    spec = {**spec, "serviceAccountName": account, "serviceAccount": account}
    automount = spec.get("automountServiceAccountToken")
    if automount is None:
        automount = found.tree.get("automountServiceAccountToken", True)
    if automount:
        drawn = f"{_TOKEN_VOLUME}{ctx.suffix()}" if not _has_volume(spec) else ""
        if drawn and volumes is not None:
            drawn = volumes.name(tree["spec"], drawn)
        spec = _with_token(spec, drawn)
    if not spec.get("imagePullSecrets") and found.tree.get("imagePullSecrets"):
        spec["imagePullSecrets"] = found.tree["imagePullSecrets"]
    return {**tree, "spec": spec}


def _has_volume(spec: Tree) -> bool:
    return any(each["name"].startswith(_TOKEN_VOLUME) for each in spec.get("volumes", ()))


def _with_token(spec: Tree, volume: str) -> Tree:
    """Mount a projected token into every container that has nothing at its path.

    `volume` is the name of a volume for it, "" when there is one.
    """
    volumes = spec.get("volumes", [])
    made = bool(volume)
    for existing in volumes:
        if existing["name"].startswith(_TOKEN_VOLUME):
            volume = existing["name"]
    mount = {"name": volume, "readOnly": True, "mountPath": _TOKEN_PATH}
    needed = False
    out = dict(spec)
    for key in ("initContainers", "containers"):
        if not spec.get(key):
            continue  # validation refuses a pod without containers
        containers = []
        for container in spec[key]:
            mounts = container.get("volumeMounts", [])
            if any(m.get("mountPath") == _TOKEN_PATH for m in mounts):
                containers.append(container)
            else:
                containers.append({**container, "volumeMounts": [*mounts, mount]})
                needed = True
        out[key] = containers
    if made and needed:
        out["volumes"] = [*volumes, {"name": volume, "projected": _token_source()}]
    return out


def _token_source() -> Tree:
    return {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {
                "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }
            },
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "namespace",
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                        }
                    ]
                }
            },
        ],
    }


def runtime_class(ctx: Context, tree: Tree, old: Tree | None) -> Tree:
    """Overhead and scheduling of a pod's runtime class."""
    if _skip(ctx) or old is not None:
        return tree
    spec = tree["spec"]
    name = spec.get("runtimeClassName")
    found = None
    if name is not None and not name:
        raise status.plain_error("resource name may not be empty")
    if name:
        found = ctx.find("node.k8s.io", "runtimeclasses", "", name)
        if found is None:
            raise status.forbidden(
                ctx.info, status.told_name(tree), f'pod rejected: RuntimeClass "{name}" not found'
            )
    overhead = ((found.tree.get("overhead") or {}) if found is not None else {}).get("podFixed")
    if overhead is not None:
        given = spec.get("overhead")
        if given and not _same_amounts(given, overhead):
            raise status.forbidden(
                ctx.info,
                status.told_name(tree),
                ("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"),
            )
        spec = {**spec, "overhead": overhead}
    scheduling = (found.tree.get("scheduling") or {}) if found is not None else {}
    selector = scheduling.get("nodeSelector")
    if selector:
        had = spec.get("nodeSelector", {})
        for key, value in selector.items():
            if had.get(key, value) != value:
                raise status.forbidden(
                    ctx.info,
                    status.told_name(tree),
                    (
                        f"pod rejected: conflict: runtimeClass.scheduling.nodeSelector[{key}] = "
                        f"{value}; pod.spec.nodeSelector[{key}] = {had[key]}"
                    ),
                )
        spec = {**spec, "nodeSelector": {**had, **selector}}
    tolerations = scheduling.get("tolerations")
    if tolerations:
        had_list = spec.get("tolerations", [])
        had = Seen(had_list)
        spec = {**spec, "tolerations": [*had_list, *(t for t in tolerations if t not in had)]}
    return tree if spec is tree["spec"] else {**tree, "spec": spec}


def overhead_check(ctx: Context, tree: Tree, old: Tree | None) -> None:
    """Only a runtime class gives a pod overhead."""
    if _skip(ctx) or old is not None:
        return
    spec = tree["spec"]
    if not spec.get("overhead"):
        return
    name = spec.get("runtimeClassName")
    found = ctx.find("node.k8s.io", "runtimeclasses", "", name) if name else None
    fixed = ((found.tree.get("overhead") or {}) if found is not None else {}).get("podFixed")
    if fixed is None:
        raise status.forbidden(
            ctx.info,
            status.told_name(tree),
            ("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"),
        )


def _same_amounts(a: Tree, b: Tree) -> bool:
    return a.keys() == b.keys() and all(
        quantity.parse(a[name]).cmp(quantity.parse(b[name])) == 0 for name in a
    )
