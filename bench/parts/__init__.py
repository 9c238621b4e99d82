"""Parts of the benchmark. Each module has a ``PART``."""
