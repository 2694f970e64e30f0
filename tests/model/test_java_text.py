from steelyard.model import java_hash


def test_the_hash_is_javas() -> None:
    assert java_hash("TagA") == 2598919
