"""The processes that measure how long a request through two services takes."""
