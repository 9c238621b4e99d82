"""Helpers that commands and jobs share: times, exit codes, log lines, and the search for modules."""
