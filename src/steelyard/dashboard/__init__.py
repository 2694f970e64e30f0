"""A page to look at: a cluster in the browser, where balance can be seen.

It is a client like any other and asks what any administrator can ask, so it looks at Apache's brokers as well as at
ours; what a cluster cannot tell is said on the page and never guessed.
"""
