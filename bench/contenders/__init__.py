"""The contenders. Each is a module that runs in a process of its own."""
