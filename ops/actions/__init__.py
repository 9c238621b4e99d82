"""What operators do: each action is a command to the owner of what it is about."""
