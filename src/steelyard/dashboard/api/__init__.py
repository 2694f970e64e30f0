"""What the page asks for: one file for each part of it, with the routes that it answers."""
