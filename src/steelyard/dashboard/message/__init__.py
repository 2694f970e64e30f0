"""Messages: looked for, looked into, and followed as they come."""
