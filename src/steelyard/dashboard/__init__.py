"""The dashboard: a cluster in the browser, where load balancing can be watched.

It is a client like any other and sends the requests that any administrator may send, so it works with Apache brokers as
well as with ours. What a cluster does not report is named as unknown and never guessed.
"""
