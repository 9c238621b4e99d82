"""Measures dialogs between two clusters, beside one cluster and beside MirrorMaker 2."""
