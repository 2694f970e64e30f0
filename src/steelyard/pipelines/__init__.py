"""Ready jobs on topics, run by Spark: archive, aggregate, replay and the balance report."""
