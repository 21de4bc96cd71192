"""Loops of the controllers: one actor with informers, work queues and workers."""
