"""A program in place of kube-scheduler: it deletes pods that are marked, by name, and with `--uid` only that very pod.

`python stand_in.py KUBECONFIG [--uid]`. It speaks plain HTTP with the standard library, as any client does.
"""

from __future__ import annotations

import base64
import json
import ssl
import sys
import urllib.request
from pathlib import Path

import yaml


def main() -> None:
    told = yaml.safe_load(Path(sys.argv[1]).read_text())
    (cluster,) = (each["cluster"] for each in told["clusters"])
    (user,) = (each["user"] for each in told["users"])
    trusted = ssl.create_default_context(
        cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
    )
    headers = {"Authorization": f"Bearer {user['token']}", "Impersonate-User": user["as"]}

    def ask(method: str, path: str, body: object = None):
        data = None if body is None else json.dumps(body).encode()
        more = {**headers, "Content-Type": "application/json"} if data else headers
        request = urllib.request.Request(cluster["server"] + path, data, more, method=method)
        return urllib.request.urlopen(request, context=trusted)

    with ask("GET", "/api/v1/pods?watch=1") as events:
        for line in events:
            pod = json.loads(line)["object"]
            meta = pod.get("metadata", {})
            if "doomed" not in (meta.get("labels") or {}) or meta.get("deletionTimestamp"):
                continue
            options = {"preconditions": {"uid": meta["uid"]}} if "--uid" in sys.argv else {}
            place = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
            body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, **options}
            try:
                ask("DELETE", place, body).close()
            except urllib.error.HTTPError as error:
                print(error, flush=True)


if __name__ == "__main__":
    main()
