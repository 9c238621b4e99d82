"""Redrive: many failed messages go back to their handlers, by a plan, a few letters first, the rest at a rate."""
