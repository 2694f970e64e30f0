"""The HTTP API: one module for each view of the dashboard, with its ROUTES."""
