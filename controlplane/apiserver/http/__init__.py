"""The HTTP boundary: HTTP/1.1 outside, recorded input inside.

`message` values that pass between boundary and world, `actor` the half inside the world, `connection` one
client, `listener` all of them, `bodies` answers as bytes, `protobuf` bodies that are not JSON, `access`
authentication, `authorization` impersonation, `control` time control, `certificates` TLS, `kubeconfig`
the clients' configuration files.

The boundary moves bytes and makes no decision that a recording would have to contain.
"""
