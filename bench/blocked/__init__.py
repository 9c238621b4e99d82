"""One handler that blocks, and everybody else."""
