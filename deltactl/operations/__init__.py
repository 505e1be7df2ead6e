"""One package for each command, and the modules that several commands use."""
