"""The command line: parse, call, render. `app.main` is the entry point of `conversations` and `conv`."""
