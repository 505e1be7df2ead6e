"""Log cleanup and log compaction."""
