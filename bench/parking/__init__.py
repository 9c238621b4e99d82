"""Measures what messages that fail cost other messages: parked dialogs, a retry storm, a million parked messages, a redrive."""
