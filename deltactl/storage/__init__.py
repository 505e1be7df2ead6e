"""Bytes by name over local file systems and whatever fsspec reaches."""
