"""The store for local file systems."""
