"""The chaos run of resends: every dialog breaks once or more often, and what its target has not accepted goes to a new dialog."""
