"""The blocking faces: the same clients, waited for in the caller's thread."""
