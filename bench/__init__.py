"""The benchmark: what a message costs, compared with a bare loop and with another exactly-once library."""
