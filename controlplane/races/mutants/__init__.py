"""Mutants: small concurrency mistakes put into the components' own source, to measure what the searches find.

A gate takes a published fix away; the searches may have been built to find it. No search was built to find a mutant:
a guard on a uid left out, two effects in the other order, a notification forgotten. The share of mutants that the
default churns find is the yardstick of the oracles and of the workloads.

- `operators` finds the places of a module where a mistake can be made, and makes it: syntax trees in, trees out;
- `population` lists the modules of each component, and draws a sample;
- `trial` searches under one mutant, in a process of its own;
- `running` carries out many trials side by side.
"""
