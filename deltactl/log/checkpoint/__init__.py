"""Read, write and verify checkpoints."""
