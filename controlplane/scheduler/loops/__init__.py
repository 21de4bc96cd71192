"""Loops of the scheduler: the scheduling loop, binding tasks, preemption, informer handlers."""
