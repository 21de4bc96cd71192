"""The rules of single kinds: one room per API group, in it one file per kind.

A kind's file holds all that Kubernetes says of it beside its schema: defaults, rules of new objects and of
updates, strategy, warnings, the row of its table and the fields that a selector may name; its last lines put
them together (`Kind`). Large kinds have a package (`core.pods`) or several files (`batch.job_rules`).
`registry` is the table of all kinds. `custom` is the room of apiextensions.k8s.io: the definitions of custom
resources and the rules of their objects. What kinds share stands here: `checks` (the small rules), `names`,
`metadata`, `selectors`, `conditions`, `trees`, `cells`, `tables`, `selectable` and `conversion`.
The questions that a strategy may ask its server are in `strategy.Lookup`.
"""
