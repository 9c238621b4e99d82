"""Measures the web console and its read model over a million dialogs: ``python -m bench.console --help``."""
