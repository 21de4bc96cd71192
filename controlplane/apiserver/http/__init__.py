"""The rim: HTTP/1.1 outside, recorded input inside.

`message` what travels between rim and world, `actor` the half inside the world, `connection` one
client, `listener` all of them, `bodies` answers as bytes, `protobuf` bodies that are not JSON, `access`
who asks, `authorization` in whose name, `control` time control, `certificates` TLS, `kubeconfig`
what clients are handed.

The rim moves bytes and decides nothing that a recording would have to know.
"""
