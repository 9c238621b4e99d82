"""What an operator holds: the read model, the few writes, and the command line over both."""
