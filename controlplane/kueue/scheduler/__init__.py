"""Kueue's scheduling cycle: nominate, order, admit or preempt, requeue."""
