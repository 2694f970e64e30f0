from pathlib import Path
from tests.cli.sessions import _desk, Step
from steelyard.serve.embedded import Cluster
def test_x(tmp_path):
    with Cluster(brokers=2) as c, _desk(c.namesrv, tmp_path) as desk:
        print(desk._shell("env | grep -i colu; echo; steelyard topic create group-orders-x --queues 2; steelyard topic ls; steelyard topic ls | cat"))
        print(desk._shell("env; python -c 'import os,sys;print(os.environ.get(\"COLUMNS\"), sys.stdout.isatty())'"))
