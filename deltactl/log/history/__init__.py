"""The commits and the timestamps of versions."""
