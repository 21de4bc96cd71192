"""What the API server answers about the snapshot kinds, with upstream's definitions in place."""

from __future__ import annotations

from typing import Any

from controlplane.api.request import Request
from controlplane.apiserver.requests.server import ApiServer
from tests.golden.answer_crd import prepare
from tests.golden.answer_crud import START
from tests.golden.runner import difference

Json = Any
CHOSEN = ("resourceVersion", "uid", "generation", "creationTimestamp", "managedFields")


class _Session:
    """A server with the definitions; objects of earlier cases are deleted."""

    def __init__(self) -> None:
        self.uids = 0
        self.server = ApiServer(uid=self._uid, suffix=lambda: "abcde")
        self.server.bootstrap(START)
        prepare(self.server, START)
        for name in ("demo-namespace", "other-namespace"):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self.server.handle(Request("create", "", "v1", "namespaces", body=namespace), START)

    def _uid(self) -> str:
        self.uids += 1
        return f"aaaaaaaa-0000-4000-8000-{self.uids:012}"

    def ask(self, verb: str, tree: Json, subresource: str = "", version: str = "") -> Json:
        group, _, own = tree["apiVersion"].partition("/")
        plural = {"s": "es"}.get(tree["kind"][-1], "s")
        metadata = tree["metadata"]
        request = Request(
            verb,
            group,
            version or own,
            tree["kind"].lower() + plural,
            namespace=metadata.get("namespace", ""),
            name="" if verb == "create" else metadata.get("name", ""),
            subresource=subresource,
            body=None if verb in ("get", "delete") else tree,
        )
        return self.server.handle(request, START)


_session: list[_Session] = []


def answer(case: Json) -> Json:
    """The answer to the case's request."""
    if not _session:
        _session.append(_Session())
    session = _session[0]
    given = case["object"]
    before = case.get("old")
    stored = given if case["op"] == "readAs" else before
    made = None
    try:
        if stored is not None:
            made = session.ask("create", stored)
            assert made.ok, made.tree
            if stored.get("status"):
                tree = {**stored, "metadata": made.tree["metadata"]}
                made = session.ask("update", tree, "status")
                assert made.ok, made.tree
        if case["op"] == "create":
            made = response = session.ask("create", given)
        elif case["op"] == "readAs":
            response = session.ask("get", given, version=case["apiVersion"].partition("/")[2])
        else:
            assert made is not None
            chosen = {key: made.tree["metadata"][key] for key in ("resourceVersion", "uid")}
            tree = {**given, "metadata": {**given["metadata"], **chosen}}
            subresource = "status" if case["op"] == "updateStatus" else ""
            response = session.ask("update", tree, subresource)
    finally:
        if made is not None and made.ok:
            _remove(session, made.tree)
    return _shown(response)


def _remove(session: _Session, tree: Json) -> None:
    deleted = session.ask("delete", tree)
    if deleted.ok and deleted.tree.get("metadata", {}).get("finalizers"):
        rest = {k: v for k, v in deleted.tree["metadata"].items() if k != "finalizers"}
        assert session.ask("update", {**deleted.tree, "metadata": rest}).ok


def _shown(response: Any) -> Json:
    if response.ok:
        metadata = {k: v for k, v in response.tree["metadata"].items() if k not in CHOSEN}
        return {"code": response.code, "object": {**response.tree, "metadata": metadata}}
    status = response.tree
    shown = {"code": response.code, "reason": status["reason"], "message": status["message"]}
    causes = (status.get("details") or {}).get("causes")
    if causes:
        shown["causes"] = sorted(causes, key=lambda each: (each["field"], each["message"]))
    return shown


def compare(want: Json, got: Json) -> str | None:
    """With several causes the message is left out: their order there is that of a map."""
    if "message" not in want:
        got = {key: value for key, value in got.items() if key != "message"}
    return difference(want, got)
