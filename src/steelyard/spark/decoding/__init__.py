"""Records of a broker's log to Arrow's columns, without a Python loop over rows."""
