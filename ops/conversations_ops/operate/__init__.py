"""What operators ask of a namespace, and what they do about it: queries, actions, and redrive."""
