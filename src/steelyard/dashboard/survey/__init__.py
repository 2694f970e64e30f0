"""The whole cluster, looked at in the background for the pages that show lists of it."""
