"""The rules of load balancing, pure: what they know is passed in, what they want done is returned."""
