"""Tests of one group run in one worker: pytest 9.2.0 with pytest-xdist 3.8.0 hands them out as if they had no group.

That the verbs ask for it, by `--dist loadgroup`, is for test_makefile.py.
"""

import pytest


@pytest.mark.xdist_group("grouping")
def test_a_group_is_kept_together_by_who_hands_tests_out(request: pytest.FixtureRequest) -> None:
    if "loadgroup" not in getattr(request.config, "workerinput", {}).get("mainargv", ()):
        pytest.skip("groups are kept together by `--dist loadgroup`, as in `make test`")
    # What `--dist loadgroup` goes by: the group's name at the end of the test's.
    assert request.node.nodeid.endswith("@grouping"), "give pytest-xdist a pytest that it works with: constraints.txt"
