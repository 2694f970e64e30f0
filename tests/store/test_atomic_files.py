from simulator.disk import SimulatedDisk
from steelyard.store.disk import make_folder, replace_file


def test_a_folder_that_was_made_is_there_whenever_the_lights_go_out() -> None:
    disk = SimulatedDisk()
    make_folder(disk, "steelyard/keys")
    replace_file(disk, "steelyard/keys/0", b"entries")
    assert all(after.read("steelyard/keys/0") == b"entries" for after in disk.all_power_losses())


def test_a_folder_may_be_made_again() -> None:
    disk = SimulatedDisk()
    make_folder(disk, "config")
    replace_file(disk, "config/topics.json", b"{}")
    make_folder(disk, "config")
    assert disk.names("config") == ["topics.json"]


def test_what_a_failed_try_left_beside_a_file_does_not_get_into_it() -> None:
    disk = SimulatedDisk()
    beside = disk.open("checkpoint.tmp", create=True)
    beside.write(0, b"a long text that was left behind")
    beside.close()
    replace_file(disk, "checkpoint", b"short")
    assert disk.read("checkpoint") == b"short"
    assert disk.names("") == ["checkpoint"]
