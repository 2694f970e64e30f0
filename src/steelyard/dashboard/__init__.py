"""The dashboard: a cluster in the browser, by requests that any administrator may send, to Apache brokers or ours.

What a cluster does not report is named as unknown and never guessed.
"""
