"""The protocol of clients without I/O: actions and messages become commands, commands become events and receipts."""
