"""What Spark makes of a queue, and what that costs beside reading it."""
