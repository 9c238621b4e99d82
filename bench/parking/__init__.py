"""What messages that fail cost those that do not: parked dialogs, a retry storm, a million parked messages, a redrive."""
