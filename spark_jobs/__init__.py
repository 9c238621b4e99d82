"""Jobs that read a service's topics with Spark: pure transforms, thin mains."""
