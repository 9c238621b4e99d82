"""Operators' tools for a namespace: queries, decisions, resubmission, redrive."""
