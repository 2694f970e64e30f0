"""The balance report: what is collected, what is computed from it, and how it is shown."""
