"""Run tasks on Spark."""
