"""Reading where the loop is the user's."""
