"""Roles and bindings, as kubectl --as meets them."""

from __future__ import annotations

from tests.apiserver.http.session import CONFIGMAPS, PODS, config, served

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"


def role(kind, name, *rules):
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "rules": list(rules),
    }


def binding(kind, name, role_kind, role_name, *subjects):
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role_name},
        "subjects": list(subjects),
    }


def user(name):
    return {"apiGroup": GROUP, "kind": "User", "name": name}


READ_PODS = {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}


async def made(session, path, tree):
    found = await session.ask("POST", f"{RBAC}/{path}", tree)
    assert found.code == 201, found.body


async def test_no_user_may_do_what_no_role_allows():
    async with served() as session:
        found = await session.ask("GET", PODS, Impersonate_User="bob")
        assert found.code == 403
        assert found.tree["message"] == (
            'pods is forbidden: User "bob" cannot list resource "pods" in API group "" '
            'in the namespace "default"'
        )
        assert found.tree["details"] == {"kind": "pods"}
        found = await session.ask("POST", CONFIGMAPS, config("a"), Impersonate_User="bob")
        assert found.code == 403
        assert (await session.ask("GET", f"{CONFIGMAPS}/a")).code == 404
        assert (await session.ask("GET", "/apis", Impersonate_User="bob")).code == 200
        assert (await session.ask("GET", "/metrics", Impersonate_User="bob")).code == 403


async def test_a_role_in_a_namespace():
    async with served() as session:
        await made(session, "namespaces/default/roles", role("Role", "reader", READ_PODS))
        await made(
            session,
            "namespaces/default/rolebindings",
            binding("RoleBinding", "bob", "Role", "reader", user("bob")),
        )
        assert (await session.ask("GET", PODS, Impersonate_User="bob")).code == 200
        assert (await session.ask("GET", PODS, Impersonate_User="eve")).code == 403
        watch = await session.ask("GET", f"{PODS}?watch=1", Impersonate_User="bob")
        assert watch.code == 403
        elsewhere = "/api/v1/namespaces/kube-system/pods"
        assert (await session.ask("GET", elsewhere, Impersonate_User="bob")).code == 403
        assert (await session.ask("GET", "/api/v1/pods", Impersonate_User="bob")).code == 403
        await session.ask("DELETE", f"{RBAC}/namespaces/default/rolebindings/bob")
        assert (await session.ask("GET", PODS, Impersonate_User="bob")).code == 403


async def test_a_cluster_role_for_groups_accounts_and_single_names():
    one = {
        "apiGroups": ["*"],
        "resources": ["configmaps"],
        "verbs": ["*"],
        "resourceNames": ["mine"],
    }
    async with served() as session:
        await made(session, "clusterroles", role("ClusterRole", "pods", READ_PODS))
        await made(session, "clusterroles", role("ClusterRole", "mine", one))
        group = {"apiGroup": GROUP, "kind": "Group", "name": "readers"}
        account = {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}
        await made(
            session,
            "clusterrolebindings",
            binding("ClusterRoleBinding", "a", "ClusterRole", "pods", group),
        )
        await made(
            session,
            "clusterrolebindings",
            binding("ClusterRoleBinding", "b", "ClusterRole", "mine", account),
        )
        reader = {"Impersonate_User": "bob", "Impersonate_Group": "readers"}
        assert (await session.ask("GET", "/api/v1/pods", **reader)).code == 200
        robot = {"Impersonate_User": "system:serviceaccount:default:robot"}
        await session.ask("POST", CONFIGMAPS, config("mine"))
        assert (await session.ask("GET", f"{CONFIGMAPS}/mine", **robot)).code == 200
        assert (await session.ask("GET", f"{CONFIGMAPS}/yours", **robot)).code == 403
        assert (await session.ask("GET", CONFIGMAPS, **robot)).code == 403


async def test_acting_as_another_user_must_be_allowed_itself():
    async with served(token="secret") as session:
        found = await session.ask("GET", PODS, Impersonate_User="bob")
        assert found.code == 403
        assert found.tree["message"] == (
            'users "bob" is forbidden: User "system:anonymous" cannot impersonate resource "users" '
            'in API group "" at the cluster scope'
        )
        admin = {"Authorization": "Bearer secret"}
        assert (await session.ask("GET", PODS, Impersonate_Group="g", **admin)).code == 400


async def test_access_reviews_tell_the_truth():
    async with served() as session:
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        tree = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {
                "resourceAttributes": {"namespace": "default", "verb": "list", "resource": "pods"}
            },
        }
        assert (await session.ask("POST", path, tree)).tree["status"]["allowed"] is True
        found = await session.ask("POST", path, tree, Impersonate_User="bob")
        assert (found.code, found.tree["status"]) == (201, {"allowed": False})
        await made(
            session,
            "namespaces/default/rolebindings",
            binding("RoleBinding", "bob", "ClusterRole", "view", user("bob")),
        )
        found = await session.ask("POST", path, tree, Impersonate_User="bob")
        assert found.tree["status"] == {
            "allowed": True,
            "reason": 'RBAC: allowed by RoleBinding "bob/default" of ClusterRole "view"'
            ' to User "bob"',
        }


async def test_more_about_a_user_must_be_allowed_too():
    async with served(token="secret") as session:
        scopes = {
            "apiGroups": ["authentication.k8s.io"],
            "resources": ["userextras/scopes"],
            "verbs": ["impersonate"],
            "resourceNames": ["dev"],
        }
        anyone = {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}
        admin = {"Authorization": "Bearer secret"}
        nobody = {"apiGroup": GROUP, "kind": "Group", "name": "system:unauthenticated"}
        for path, tree in (
            ("clusterroles", role("ClusterRole", "actor", scopes, anyone)),
            (
                "clusterrolebindings",
                binding("ClusterRoleBinding", "a", "ClusterRole", "actor", nobody),
            ),
        ):
            assert (await session.ask("POST", f"{RBAC}/{path}", tree, **admin)).code == 201
        as_bob = {"Impersonate_User": "bob"}
        dev = await session.ask("GET", "/api", Impersonate_Extra_Scopes="dev", **as_bob)
        assert dev.code == 200
        ops = await session.ask("GET", "/api", Impersonate_Extra_Scopes="ops", **as_bob)
        assert ops.code == 403
        assert 'cannot impersonate resource "userextras/scopes"' in ops.tree["message"]
        alone = await session.ask("GET", "/api", Impersonate_Extra_Scopes="dev", **admin)
        assert alone.code == 400


APPLY = {"Content_Type": "application/apply-patch+yaml"}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


async def test_whoever_may_only_change_objects_makes_none_by_put_or_apply():
    """Upstream: endpoints/handlers/update.go, withAuthorization, asks for create when the object is new."""
    change = {
        "apiGroups": ["", "coordination.k8s.io"],
        "resources": ["configmaps", "leases"],
        "verbs": ["get", "update", "patch"],
    }
    create = {
        "apiGroups": ["", "coordination.k8s.io"],
        "resources": ["configmaps", "leases"],
        "verbs": ["create"],
    }
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "a"},
        "spec": {},
    }
    bob = {"Impersonate_User": "bob"}
    put = ("PUT", f"{LEASES}/a", lease, {})
    applied = ("PATCH", f"{CONFIGMAPS}/a?fieldManager=m", config("a"), APPLY)
    async with served() as session:
        await made(session, "clusterroles", role("ClusterRole", "change", change))
        await made(
            session,
            "namespaces/default/rolebindings",
            binding("RoleBinding", "bob", "ClusterRole", "change", user("bob")),
        )
        for (method, path, tree, headers), shown in (
            (put, 'leases.coordination.k8s.io "a" is forbidden: '),
            (applied, 'configmaps "a" is forbidden: '),
        ):
            found = await session.ask(method, path, tree, **headers, **bob)
            assert (found.code, found.tree["message"]) == (403, shown)
            assert (await session.ask("GET", path)).code == 404
            dry = path + ("&" if "?" in path else "?") + "dryRun=All"
            assert (await session.ask(method, dry, tree, **headers, **bob)).code == 403
        await made(session, "clusterroles", role("ClusterRole", "create", create))
        await made(
            session,
            "namespaces/default/rolebindings",
            binding("RoleBinding", "bob-too", "ClusterRole", "create", user("bob")),
        )
        for method, path, tree, headers in (put, applied):
            assert (await session.ask(method, path, tree, **headers, **bob)).code == 201
        await session.ask("DELETE", f"{RBAC}/namespaces/default/rolebindings/bob-too")
        method, path, tree, headers = applied
        assert (await session.ask(method, path, tree, **headers, **bob)).code == 200, "it is there"
