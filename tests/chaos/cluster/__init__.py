"""A chaos run on a cluster: three brokers behind a proxy of our own, and everything that can fail does, after a seeded plan."""
