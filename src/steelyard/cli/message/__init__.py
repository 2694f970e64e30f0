"""`steelyard message`: finding messages, and what became of them."""
