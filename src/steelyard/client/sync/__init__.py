"""Blocking clients over the asyncio ones."""
