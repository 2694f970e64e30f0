"""`steelyard bench`: its verbs, with an example or two of each."""

from steelyard.cli.bench.receiving import bench_receive
from steelyard.cli.bench.sending import bench_send
from steelyard.cli.frame.nouns import Noun

__all__ = ["app"]

app = Noun("bench", "Measure a cluster: how many messages a second, and how long one takes.")

app.verb(
    "send",
    "steelyard bench send",
    "steelyard bench send --size 1000 --duration 30s --batch 32",
    "steelyard bench send orders --count 100 --in-flight 1 --output json",
)(bench_send)
app.verb(
    "receive",
    "steelyard bench receive",
    "steelyard bench receive orders",
    "steelyard bench receive --rate 1000 --duration 30s",
)(bench_receive)
