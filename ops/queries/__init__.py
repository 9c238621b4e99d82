"""What is asked of the topics: nothing here changes anything."""
