"""Looking at a cluster from outside, server by server, for whoever wonders why it does not work."""
