"""`steelyard cluster`: its verbs, with an example or two of each."""

from steelyard.cli.cluster.exporting import export
from steelyard.cli.cluster.latency import latency
from steelyard.cli.cluster.looking import show, stats
from steelyard.cli.cluster.name_servers import key_values, name_servers
from steelyard.cli.frame.nouns import Noun

__all__ = ["app"]

app = Noun("cluster", "Look at the whole: brokers, name servers, rates, latency.")

app.verb("show", "steelyard cluster show", "steelyard cluster show --json | jq -r .version")(show)
app.verb("stats", "steelyard cluster stats", "steelyard cluster stats --active", "steelyard cluster stats --brokers")(
    stats
)
app.verb("latency", "steelyard cluster latency", "steelyard cluster latency --count 1000 --size 4096")(latency)
app.verb("export", "steelyard cluster export --to backup")(export)
app.add_typer(name_servers)
app.add_typer(key_values)
