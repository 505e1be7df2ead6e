"""Build commits, check them for conflicts, and write them."""
