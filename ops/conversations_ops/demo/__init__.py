"""`conversations demo`: a month of real flights through two services, checked against plain code over the same CSV."""
