"""Measures how much failing messages slow down other messages: parked dialogs, a retry storm, a million parked messages, a redrive."""
