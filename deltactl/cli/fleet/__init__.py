"""Run a command on several tables."""
