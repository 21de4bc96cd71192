"""For test suites: explore a scenario from pytest, and draw workloads and schedules with Hypothesis.

plugin      the pytest fixtures `explore` and `cluster`; loaded by pytest itself where this package is installed
cluster     a served cluster for operators of any kind, with time and faults in hand
hypothesis  strategies for pods, nodes and operations, and a schedule that Hypothesis shrinks
"""
