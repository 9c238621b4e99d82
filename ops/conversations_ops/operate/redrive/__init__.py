"""Giving many failed messages back to their handlers: a frozen plan, tried on a few first, then at a rate."""
