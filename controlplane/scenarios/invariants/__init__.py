"""What must hold, ready for use; one module per thing that is looked at."""
