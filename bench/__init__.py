"""The benchmark: what a message costs, next to a bare loop and to another exactly-once library."""
