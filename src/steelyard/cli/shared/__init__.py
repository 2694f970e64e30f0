"""Shared by all commands: options, output, terminal, exit codes, contexts, input files."""
