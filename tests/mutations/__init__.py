"""Removes one guard after the other from the product and sees that exactly the test of its rule fails."""
