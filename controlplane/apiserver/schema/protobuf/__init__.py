"""Kubernetes' protobuf: bodies and answers of built-in kinds, between bytes and JSON trees.

`numbers` which field has which number, `definitions` those of custom resource definitions,
`reading` bytes to trees, `writing` trees to bytes, `wire` varints and lengths.

Upstream: apimachinery pkg/runtime/serializer/protobuf, api */generated.proto.
"""
