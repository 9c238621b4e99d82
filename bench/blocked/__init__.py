"""One handler that blocks, and the other dialogs meanwhile."""
