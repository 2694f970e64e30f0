"""Who watches a client is told what happens in it: one hook for traces, metrics and whatever else looks on."""
