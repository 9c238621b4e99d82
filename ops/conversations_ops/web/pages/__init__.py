"""The pages of the web console. Each module has the pages about one noun."""
