"""Rules of PROTOCOL.md for values and Arrow columns, without I/O."""
