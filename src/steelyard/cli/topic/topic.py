"""`steelyard topic`: its verbs, with an example or two of each."""

from steelyard.cli.frame.nouns import Noun
from steelyard.cli.topic.changing import add_queues, apply_file, create_topic, delete_topic, order_topic, set_topic
from steelyard.cli.topic.looking import list_topics, show_route, show_settings, show_topic

__all__ = ["app"]

app = Noun("topic", "List topics, look at one, make, change and delete it.")

app.verb("ls", "steelyard topic ls", "steelyard topic ls 'order*' --groups", "steelyard topic ls -o csv > topics.csv")(
    list_topics
)
app.verb("show", "steelyard topic show orders", "steelyard topic show orders --output json | jq '.[].messages'")(
    show_topic
)
app.verb("create", "steelyard topic create orders --queues 16", "steelyard topic create audit --broker broker-0")(
    create_topic
)
app.verb("add-queues", "steelyard topic add-queues orders --to 32")(add_queues)
app.verb(
    "set",
    "steelyard topic set orders --may read",
    "steelyard topic set orders --write-queues 4 --dry-run",
    "steelyard topic set orders --attribute message.type=FIFO",
)(set_topic)
app.verb(
    "apply",
    "steelyard topic apply topics.json --dry-run",
    """echo '{"orders": 16, "audit": {"queues": 4, "may": "read"}}' | steelyard topic apply -""",
)(apply_file)
app.verb("delete", "steelyard topic delete orders", "steelyard topic delete orders --yes")(delete_topic)
app.verb("route", "steelyard topic route orders")(show_route)
app.verb("settings", "steelyard topic settings orders")(show_settings)
app.verb(
    "order",
    "steelyard topic order orders",
    "steelyard topic order orders --fix broker-0:4 --fix broker-1:4",
    "steelyard topic order orders --clear",
)(order_topic)
