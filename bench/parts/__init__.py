"""What can be measured: each a module with a ``PART``."""
