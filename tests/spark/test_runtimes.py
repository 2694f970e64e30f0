"""Scripts in front of programs, where there is no home."""

import pwd
import shutil

import pytest

from steelyard.spark.runtimes import WrapperFile, write_wrapper


def test_where_nothing_says_which_directory_is_home_a_directory_of_the_process_will_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)  # as in a container that runs as a number nobody has a name for
    folder = write_wrapper("java", {"bin/java": WrapperFile("exec java", is_executable=True)}, {})
    assert (folder / "bin" / "java").read_text() == "exec java"
    shutil.rmtree(folder)
