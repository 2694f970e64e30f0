"""The kinds of histories: one small drawing function each, so that every corner of the world has its own seeds."""
