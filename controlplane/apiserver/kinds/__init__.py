"""What is special to a kind: strategies, defaults, validation, selectable fields, table columns.

`validation` has a module per family of kinds (`claims`: what may change about a PersistentVolumeClaim),
`custom` the definitions of custom resources and the rules of their objects. What a strategy may ask of
its server is `strategy.Lookup`.
"""
