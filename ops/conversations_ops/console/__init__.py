"""What every command and every job share: how they are told times, and how they speak and end."""
