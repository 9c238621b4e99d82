"""The operator's side: the command line, the processes it hosts, and what operators read and change."""
