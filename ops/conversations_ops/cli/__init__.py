"""The command line: parses options, calls the tools, and prints results. `app.main` is the entry point of `conversations` and `conv`."""
