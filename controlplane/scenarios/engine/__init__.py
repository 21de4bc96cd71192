"""One run: its scenario, options, plan, execution, users and what it left."""
