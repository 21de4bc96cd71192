"""Operators of other people, unmodified, as processes of an emulated cluster: what they do under perturbation plans.

    description  the file that names an operator: manifests, commands, workload, what is tried and must hold
    container    what the container of a pod sees: environment, files, credentials
    quiescence   whether a process is at work, from its requests and its use of the processor
    observation  what a run left: end state, history, messages, processes
    masks        what differs between runs without faults, and is not compared
    generation   perturbation plans made from runs without faults
    oracles      what is wrong with a run, compared with those
    campaign     which plan is tried next; confirmation by repeats; what was found
    sieve        plan files of Sieve as plans of this project
    report       what was tried and found, for people and machines
    loops        what runs: one session, its processes, a campaign

Decisions are plain functions over values; only `loops` awaits.
"""
