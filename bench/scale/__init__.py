"""Measures how much state one worker can hold, and how long it needs to take the state up: ``python -m bench.scale --help``."""
