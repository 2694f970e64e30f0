"""A model of what is not ours: Apache's broker, and members as Java has them."""
