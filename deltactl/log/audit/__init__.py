"""Compare checkpoints, compacted files and checksums with the commits; find repeated paths."""
