"""Headers of the accounts that 4.9 brokers keep in a file."""

from steelyard.wire.fields import Header

__all__ = ["AccountKey", "AccountVersionAnswer", "AllowAddresses", "PutAccount"]


class PutAccount(Header, frozen=True):
    """50 UPDATE_AND_CREATE_ACL_CONFIG: one account, whole. Lists are divided by commas."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class AccountKey(Header, frozen=True):
    """51 DELETE_ACL_CONFIG."""

    access_key: str


class AccountVersionAnswer(Header, frozen=True):
    """The answer to 52 GET_BROKER_CLUSTER_ACL_INFO: versions as JSON text, of one file and of all by their paths."""

    version: str | None = None
    all_acl_file_version: str | None = None
    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None


class AllowAddresses(Header, frozen=True):
    """53 UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: who needs no account, by commas, and which file says so."""

    global_white_addrs: str
    acl_file_full_path: str
