"""The rules of single kinds: strategies, defaults, validation, selectable fields, table columns.

`validation` has a module per family of kinds (`claims`: permitted changes of a PersistentVolumeClaim),
`custom` the definitions of custom resources and the rules of their objects. The questions that a strategy may
ask its server are in `strategy.Lookup`.
"""
