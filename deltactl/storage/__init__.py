"""Read and write files by name, on local file systems and on object stores through fsspec."""
