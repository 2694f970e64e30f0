"""What all tests share: hypothesis draws the same examples in every run and is not hurried by a busy machine."""

from hypothesis import settings

settings.register_profile("steelyard", deadline=None, derandomize=True)
settings.load_profile("steelyard")
