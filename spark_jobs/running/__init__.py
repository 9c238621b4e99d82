"""Parts that all jobs use to run: command line, session, files and output."""
