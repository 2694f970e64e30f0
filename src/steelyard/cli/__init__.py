"""What people type. Typer and rich are imported here and nowhere below."""
