"""Ready jobs on topics, run by Spark: archive, aggregate, replay and a report on balance."""
