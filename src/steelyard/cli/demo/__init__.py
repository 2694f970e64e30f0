"""What `make demo` shows: a cluster, a group that balances itself while things go wrong, and the proof."""
