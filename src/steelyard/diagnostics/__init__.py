"""Diagnostics: rules for what looks wrong, by subject: group, servers, topic. Pure: facts in, findings out.

Members, brokers, the command line, the dashboard and reports gather the facts, each as it can, and render the findings.
A rule changes nothing: what it finds works, though not as intended.
"""
