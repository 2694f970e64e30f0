"""Rules that must hold in every history, one file each."""
