"""The HTTP boundary: HTTP/1.1 outside, recorded input inside.

`message` values that pass between boundary and world, `bodies` answers as bytes, `access` authentication,
`authorization` impersonation, `certificates` TLS, `kubeconfig` the clients' configuration files, `streams`,
`websocket` and `spdy` the connections of exec, attach and port-forward. The tasks that serve connections are
in `apiserver.loops`.

The boundary moves bytes and makes no decision that a recording would have to contain.
"""
