"""The parts of the balance report: what is gathered, what is worked out from it, and how it is shown."""
