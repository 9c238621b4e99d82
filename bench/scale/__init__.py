"""How much one worker can hold, and how long it takes to take it up: ``python -m bench.scale --help``."""
