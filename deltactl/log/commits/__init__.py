"""Read and parse each commit once, for the replay and all visitors; count its changes."""
