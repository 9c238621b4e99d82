"""Measures how the release of delayed rows to a peer that is back affects the other dialogs of the same worker."""
