"""The demo of `make demo`: a cluster, a group that rebalances while things fail, and the delivery report."""
