"""Perturbation plans: a few lines that say what matters of an interleaving, and outlive the next change of the code.

`language` reads and writes them, `passing` names what passes between processes, `control` carries a plan out in a
run, and `generating` makes the plans that are worth trying from a calm run.
"""
