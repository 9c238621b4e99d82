"""Who does the work: each a module run in a process of its own."""
