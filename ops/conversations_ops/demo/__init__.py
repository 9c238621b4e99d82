"""`conversations demo`: two services process a month of real flights. Plain code over the same CSV checks the results."""
