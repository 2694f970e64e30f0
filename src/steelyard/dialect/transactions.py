"""How a transaction ends (37), and what a broker asks about one that has not (39).

Spec facts. An end names the half message by its offset in the queue of halves, its position in the log and its unique
key. A broker that waits too long writes the half anew and asks: the question has the new place, and the message itself,
with topic and queue as the user gave them but the offset of the half. The answer is an end, said to the broker that
asked. Apache's broker stores a second copy when an end to commit comes twice: do not say it again by yourself.
"""

from steelyard.dialect.asked import only_message
from steelyard.dialect.sending import Half
from steelyard.model import StoredMessage
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import ONEWAY, Command
from steelyard.wire.headers.send import CheckTransaction, EndTransaction
from steelyard.wire.sysflag import Transaction

__all__ = ["end_request", "half_asked_for", "read_check"]


def end_request(
    group: str,
    topic: str,
    half: Half,
    *,
    commits: bool,
    was_asked: bool = False,
    is_oneway: bool = False,
    opaque: int = 0,
) -> Command:
    """Write the end of a transaction; ``was_asked`` in answer to a broker's question."""
    header = EndTransaction(
        producer_group=group,
        tran_state_table_offset=half.offset,
        commit_log_offset=half.position,
        commit_or_rollback=int(Transaction.COMMITTED if commits else Transaction.ROLLED_BACK),
        msg_id=half.unique_key,
        from_transaction_check=was_asked,
        transaction_id=half.unique_key,
        topic=topic,
    )
    return Command(RequestCode.END_TRANSACTION, header, opaque=opaque, flag=ONEWAY if is_oneway else 0)


def half_asked_for(question: Command) -> Half:
    """Read which half a broker asks about."""
    header = question.header(CheckTransaction)
    key = header.transaction_id or header.msg_id or ""
    return Half(header.tran_state_table_offset, header.commit_log_offset, key)


def read_check(question: Command, broker: str) -> tuple[Half, StoredMessage]:
    """Read which half a broker asks about, and the message itself; its group is its property PGROUP."""
    return half_asked_for(question), only_message(StoredMessage, question, broker)
