"""`steelyard message`: its verbs, with an example or two of each."""

from steelyard.cli.frame.nouns import Noun
from steelyard.cli.message.following import (
    export_pop_records,
    redeliver_message,
    resend_message,
    show_index,
    show_readers,
    trace_message,
)
from steelyard.cli.message.ids import show_id
from steelyard.cli.message.looking import find_messages, list_messages, show_message

__all__ = ["app"]

app = Noun("message", "Find messages, look into them, and have them handled again.")

app.verb(
    "show",
    "steelyard message show 7F0000010000AAAABBBB000000000001",
    "steelyard message show --topic orders --at broker-0:3:41",
    "steelyard message show 7F0000010000AAAABBBB000000000001 --raw > body.bin",
)(show_message)
app.verb("find", "steelyard message find orders order-1", "steelyard message find orders order-1 --since '1 day ago'")(
    find_messages
)
app.verb(
    "ls",
    "steelyard message ls orders",
    "steelyard message ls orders --from '2 hours ago' --count 100 --output csv",
    "steelyard message ls orders --queue broker-0:3 --from 41",
)(list_messages)
app.verb("readers", "steelyard message readers 7F0000010000AAAABBBB000000000001 --topic orders")(show_readers)
app.verb("trace", "steelyard message trace 7F0000010000AAAABBBB000000000001")(trace_message)
app.verb(
    "redeliver",
    "steelyard message redeliver 7F0000010000AAAABBBB000000000001 --group billing",
    "steelyard message redeliver 7F0000010000AAAABBBB000000000001 --group billing --member till-1",
)(redeliver_message)
app.verb("resend", "steelyard message resend 7F0000010000AAAABBBB000000000001 --to orders-again")(resend_message)
app.verb("id", "steelyard message id C0A8010200002A9F0000000000000400")(show_id)
app.verb("index", "steelyard message index orders --queue broker-0:3 --from 41")(show_index)
app.verb("export-pop-records", "steelyard message export-pop-records --broker broker-a --yes")(export_pop_records)
