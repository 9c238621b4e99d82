"""Measures what failing messages cost the others: parked dialogs, a retry storm, a million parked messages, a redrive."""
