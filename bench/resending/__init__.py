"""Measures how fast broken dialogs carry on with new dialogs, on which what their targets have not accepted is sent again."""
