"""What people type. Click and rich are imported here and nowhere below."""
