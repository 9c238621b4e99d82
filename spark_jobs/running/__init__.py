"""How a job runs: its command line, its session, its files, its output."""
