"""`steelyard message id`: what a message's id says by itself."""

from datetime import UTC, datetime

from steelyard.cli.frame.output import Out
from steelyard.cli.frame.where import at_cluster
from steelyard.cli.message.looking import MessageId
from steelyard.cli.message.places import checked_id

__all__ = ["show_id"]


@at_cluster
def show_id(out: Out, message_id: MessageId) -> None:
    """Tell what a message's id says: where the message lies, or who made the id, and when."""
    from steelyard.client.id_words import explain_id

    out.one(explain_id(checked_id(message_id), datetime.now(UTC)))
