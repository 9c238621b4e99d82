"""Redrive: gives many held messages back to their handlers by a plan, a few letters first, then the rest at a limited rate."""
