"""`steelyard check`: one line and an exit code for whatever watches a cluster."""
