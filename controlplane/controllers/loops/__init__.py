"""How the controllers live: one actor with informers, work queues and workers."""
