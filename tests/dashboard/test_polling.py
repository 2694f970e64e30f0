"""Looking once for all who watch."""

import asyncio

import pytest

from steelyard.dashboard.polling import PollFailure, SharedPolls
from steelyard.errors import ConfigurationError


def test_all_watchers_share_one_poll_and_get_the_newest() -> None:
    async def play() -> None:
        watches, polls = SharedPolls(), []

        async def collect(before: int | None) -> int:
            polls.append(before)
            return (before or 0) + 1

        async def watch() -> list[int | PollFailure]:
            seen: list[int | PollFailure] = []
            async for value in watches.subscribe("key", 1, collect):
                seen.append(value)
                if len(seen) == 3:
                    break
            return seen

        first, second = await asyncio.gather(watch(), watch())
        assert first[0] == second[0] == 1
        assert polls[:3] == [None, 1, 2]
        assert await watches.latest("key", 1, collect) >= 3
        await watches.close()

    asyncio.run(play())


def test_a_poll_that_fails_is_reported_and_tried_again() -> None:
    async def play() -> None:
        watches, turns = SharedPolls(), 0

        async def collect(before: str | None) -> str:
            nonlocal turns
            turns += 1
            if turns == 2:
                raise ConfigurationError("nobody is at home")
            return f"{before}{turns}"

        seen: list[str] = []
        async for value in watches.subscribe("key", 1, collect):
            seen.append(str(value.error) if isinstance(value, PollFailure) else value)
            if len(seen) == 3:
                break
        assert seen == ["None1", "nobody is at home", "None3"]
        await watches.close()

    asyncio.run(play())


def test_a_first_poll_that_fails_is_the_answer() -> None:
    async def play() -> None:
        watches = SharedPolls()

        async def collect(before: int | None) -> int:
            raise ConfigurationError(f"nobody is at home {before}")

        with pytest.raises(ConfigurationError, match="nobody is at home None"):
            await watches.latest("key", 1000, collect)
        await watches.close()

    asyncio.run(play())


def test_a_watch_without_watchers_ends_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.dashboard.polling._LINGER_S", 0.01)

    async def play() -> None:
        watches, polls = SharedPolls(), 0

        async def collect(before: int | None) -> int:
            nonlocal polls
            del before
            polls += 1
            return polls

        await watches.latest("key", 1, collect)
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.005)
        assert await watches.latest("key", 1, collect) == polls
        await watches.close()

    asyncio.run(play())


def test_a_poll_that_meets_a_bug_ends_the_watch_with_it_and_stops_nobody_else() -> None:
    async def play() -> None:
        watches = SharedPolls()

        async def collect(before: int | None) -> int:
            if before is not None:
                raise KeyError("a bug")
            return 1

        async def watch() -> None:
            async for value in watches.subscribe("key", 1, collect):
                assert value == 1

        with pytest.raises(KeyError):
            await watch()
        assert await watches.latest("key", 1, collect) == 1
        await watches.close()

    asyncio.run(play())


def test_whoever_watches_when_all_watching_ends_is_let_go() -> None:
    async def play() -> None:
        watches = SharedPolls()

        async def collect(before: int | None) -> int:
            return (before or 0) + 1

        async def watch() -> None:
            async for _ in watches.subscribe("key", 60_000, collect):
                pass

        watching = asyncio.create_task(watch())
        await watches.latest("key", 60_000, collect)
        await watches.close()
        await asyncio.wait({watching})

    asyncio.run(play())
