"""Measures what queries over a queue cost in Spark, compared with a plain read."""
