"""The chaos run of speakers: a web hook, a terminal and a handler speak at once on the dialogs that their service accepted."""
