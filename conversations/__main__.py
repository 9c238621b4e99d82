"""``python -m conversations``: the same as the command ``conversations``."""

from conversations_ops.entry_point import main

if __name__ == "__main__":
    main()
