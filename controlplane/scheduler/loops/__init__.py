"""How the scheduler lives: the scheduling loop, binding tasks, preemption, informer handlers."""
