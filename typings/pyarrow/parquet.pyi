# The part of pyarrow.parquet that is used here.

from pathlib import Path
from typing import Any

from pyarrow import Table

def read_table(source: str | Path, columns: list[str] | None = ..., **more: Any) -> Table: ...
def write_table(table: Table, where: str | Path, **more: Any) -> None: ...
