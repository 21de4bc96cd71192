"""For test suites: explore a scenario from pytest, and draw workloads and schedules with Hypothesis.

plugin      the pytest fixture `explore`; loaded by pytest itself where this package is installed
hypothesis  strategies for pods, nodes and operations, and a schedule that Hypothesis shrinks
"""
