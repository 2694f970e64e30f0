"""Server processes: they run the pure cores on real sockets and files."""
