"""The operator's side: the command line, the worker processes that it hosts, and the tools of operators."""
