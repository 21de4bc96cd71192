"""Pod Security admission: namespaces say which standard their pods must meet.

`levels` reads the namespace's labels, `checks` are the standards, `plugin` asks them. Upstream:
k8s.io/pod-security-admission.
"""
