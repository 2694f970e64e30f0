"""Where a cluster is, as options of the Spark source and sink: what `spark/options/checked.py` reads, written."""

from pathlib import Path

from steelyard.client.connect import Connect
from steelyard.client.tls import Tls
from steelyard.errors import ConfigurationError

__all__ = ["where_options"]


def where_options(connect: Connect) -> dict[str, str]:
    """Return how to reach a cluster as options of ``format("rocketmq")``.

    >>> where_options(Connect("mq-1:9876; mq-2:9876", access_key="shop", secret_key="s", namespace="eu"))
    {'namesrv': 'mq-1:9876;mq-2:9876', 'namespace': 'eu', 'accessKey': 'shop', 'secretKey': 's'}
    """
    options = {
        "namesrv": ";".join(connect.name_servers),
        "namespace": connect.namespace,
        "accessKey": connect.access_key,
        "secretKey": connect.secret_key,
        "securityToken": connect.token,
        **_tls(connect),
    }
    return {name: value for name, value in options.items() if value}


def _tls(connect: Connect) -> dict[str, str | None]:
    tls = connect.tls
    if isinstance(tls, bool):
        return {"tls": "true" if tls else None}
    if isinstance(tls, str | Path):
        return {"tls": str(tls)}
    if isinstance(tls, Tls):
        return {
            "tls": "true" if tls.ca is None else str(tls.ca),
            "tlsVerify": None if tls.verify else "false",
            "tlsCertificate": None if tls.certificate is None else str(tls.certificate),
            "tlsKey": None if tls.key is None else str(tls.key),
            "tlsKeyPassword": tls.password,
        }
    raise ConfigurationError(
        "Spark's workers cannot be given an SSLContext: it stays in its process",
        next_step="give tls as true, as a path of authorities, or as Tls",
    )
