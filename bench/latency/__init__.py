"""How long a request takes through two services."""
