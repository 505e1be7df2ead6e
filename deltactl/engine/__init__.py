"""Run tasks: the interface of engines, the local engine, the choice of the engine."""
