"""Data files: read live rows, write files with statistics."""
