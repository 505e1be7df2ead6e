"""Read the log: listing, segment, replay, snapshot; the versions in which a file is live."""
