"""Apache's C++ client by its Python face, the package `rocketmq`: a consumer with a plain callback.

A process of its own, ``python -m bench.cpp_load NAME_SERVER TOPIC GROUP COUNT``, with the package on its path.
"""

import sys

from rocketmq.client import PushConsumer

from bench.callback import Callback


def _main(name_server: str, topic: str, group: str, messages: int) -> None:
    callback = Callback(messages)
    consumer = PushConsumer(group)
    consumer.set_namesrv_addr(name_server)
    consumer.subscribe(topic, callback.handle)
    consumer.start()
    callback.print_until_done()
    consumer.shutdown()


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
