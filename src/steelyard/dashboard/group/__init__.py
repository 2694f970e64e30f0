"""One group: its ownership grid, live, and the history of its moves."""
