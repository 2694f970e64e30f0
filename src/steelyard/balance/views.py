"""Whom a member believes to be in the group, when it looks again, and which queues are its own by its plan.

A *round* asks every broker of the group who is in it, then, where no broker can tell who owns what, the other members
themselves; its end is the only moment at which the plan changes. Safety never depends on the plan: it may be late,
wrong or different on each member. What the rules here give is that members soon agree, and that nothing is dropped for
a view that is likely to be false:

- a broker is asked after it heard our heartbeat; the group is whoever is on any list, and us;
- no answer changes nothing: a last list counts for a while (lists.py), and if nobody answers all stays as it is;
- our own id missing: another heartbeat, another look, nothing dropped;
- lists that differ: act on all of them together, and look again until they agree;
- without leases, or with foreign members, a plan follows from two equal looks, a moment apart;
- the routes say which queues there are (routes.py). A queue that left the route is planned out; only if its broker
  cannot be reached either does it stay planned, for as long as it is held and a minute at most, so that its holder
  decides;
- a broadcasting member reads every queue, and needs no round.

The tickets of questions asked here are even.
"""

from collections.abc import Mapping

from steelyard.balance.actions import Action, AskGroup, AskHolders
from steelyard.balance.allocate.strategy import Owned, remembers
from steelyard.balance.events import (
    BeatAnswered,
    Event,
    GroupFailed,
    GroupSeen,
    HoldersFailed,
    HoldersSeen,
    LineCut,
    MembersChanged,
    Poked,
    RouteFailed,
    RouteSeen,
    Tick,
)
from steelyard.balance.hazards import Hazard
from steelyard.balance.lines import Lines
from steelyard.balance.lists import Lists, Sight
from steelyard.balance.member_options import MemberOptions, Mode
from steelyard.balance.owners import Owners, OwnersSeen
from steelyard.balance.planner import Held, Planner
from steelyard.balance.planning import owned_by
from steelyard.balance.rounds import NEVER_MS, BackOff, Rounds, SecondLook, next_look_ms
from steelyard.balance.routes import Routes
from steelyard.model import Queue, in_order

__all__ = ["Views"]

_HEEDED = frozenset(
    (
        BeatAnswered,
        GroupFailed,
        GroupSeen,
        HoldersFailed,
        HoldersSeen,
        LineCut,
        MembersChanged,
        Poked,
        RouteFailed,
        RouteSeen,
        Tick,
    )
)
"""What concerns a view: most events are about messages, and are passed over at once."""


class Views:
    """What one member believes of its group."""

    def __init__(self, options: MemberOptions, lines: Lines) -> None:
        times = options.times
        self.restless = False
        """Whether something is not settled, so that looks come sooner; set by the member."""
        self._options = options
        self._times = times
        self._lines = lines
        self._is_broadcast = options.mode is Mode.BROADCAST
        self._routes = Routes(options)
        self._lists = Lists(options, lines)
        self._owners = Owners(times.round_ms)
        self._planner = Planner(options, lines, self._routes)
        self._rounds = Rounds(times.round_gap_ms)
        self._second_look = SecondLook(times.second_look_ms, times.round_soon_ms)
        self._no_answer = BackOff(times.ask_again_ms, times.ask_again_most_ms)
        self._own_id = BackOff(times.own_id_ms, times.ask_again_most_ms)
        self._ticket = 0
        self._unanswered: set[str] = set()
        """Brokers whose list the round waits for; never gone through, as no set is."""
        self._has_answer = False
        self._sight: Sight | None = None
        """What the round has found so far, while it asks for owners."""
        self._registered: set[str] = set()
        self._unheard: tuple[str, ...] = ()
        """Brokers to ask that never told a list."""

    # -- looking -------------------------------------------------------------------------------------------------------

    @property
    def rounds(self) -> int:
        """How many rounds began."""
        return self._rounds.count

    @property
    def strategy_name(self) -> str:
        """The strategy of the last plan."""
        return self._planner.strategy_name

    @property
    def held_by_me(self) -> Held:
        """What the member holds; set by it."""
        return self._planner.held_by_me

    @held_by_me.setter
    def held_by_me(self, held: Held) -> None:
        self._planner.held_by_me = held

    def plan(self) -> tuple[Queue, ...] | None:
        """Return the queues that are mine by the last good round, in order; None: no plan yet, so change nothing."""
        return () if self._lines.leaving else self._planner.plan

    @property
    def owned(self) -> Owned | None:
        """What each member had when the last plan was made; None: that is not known."""
        return self._planner.owned

    @property
    def hazards(self) -> tuple[Hazard, ...]:
        """What looked wrong in the group at the end of the last round."""
        return self._planner.hazards

    def members(self) -> tuple[str, ...]:
        """Return whom the last plan was made for, in order."""
        return self._planner.members

    def listed(self, broker: str, now_ms: int) -> tuple[str, ...]:
        """Return the ids of a broker's last list, and those missing there for a moment only: whom a taker asks."""
        return self._lists.listed(broker, now_ms)

    def unheard_owners(self) -> Mapping[str, tuple[Queue, ...]]:
        """Return what members held when they last answered us that do not answer now."""
        return self._owners.unheard_owners()

    def has_departed(self, member: str, now_ms: int) -> bool:
        """Say whether a member is surely gone."""
        return self._lists.has_departed(member, self._routes.brokers_asked(), now_ms)

    def has_foreign(self) -> bool:
        """Say whether a member of the group is not ours."""
        return self._lists.has_foreign

    def queues(self) -> frozenset[Queue]:
        """Return what is readable by the last routes."""
        return self._routes.readable

    def is_new(self, queue: Queue) -> bool:
        """Say whether a queue appeared while the group was running, so that nothing in it may be passed over."""
        return self._routes.is_new(queue)

    def ask_now(self, now_ms: int) -> None:
        """Look at the group as soon as may be."""
        self._rounds.want(now_ms)

    def due_ms(self) -> int:
        """Return when the next look at routes or members is due."""
        return min(self._routes.due_ms(self._calm_ms()), self._round_due_ms())

    def _calm_ms(self) -> int:
        return NEVER_MS if self.restless else self._planner.changed_ms + self._times.unrest_ms

    def _round_due_ms(self) -> int:
        rounds = self._rounds
        if self._is_broadcast:
            return self._planner.again_ms
        if rounds.is_running or not self._may_ask():
            return NEVER_MS
        due_ms = rounds.due_ms()
        if rounds.began_ms is not None:
            times = self._times
            due_ms = min(due_ms, next_look_ms(rounds.began_ms, times.round_soon_ms, times.round_ms, self._calm_ms()))
        # A broker that is just being connected to is worth a short wait: it may know members that others do not.
        for broker in self._unheard:
            if broker not in self._registered:
                due_ms = max(due_ms, self._routes.brokers()[broker] + self._times.ask_again_ms)
        return due_ms

    def _may_ask(self) -> bool:
        """Say whether a round makes sense at all: somebody can be asked, for something that is shared."""
        return bool(self._registered) and self._routes.is_complete and not self._lines.leaving

    # -- stepping ------------------------------------------------------------------------------------------------------

    def step(self, event: Event, now_ms: int) -> list[Action]:
        """Take note of what happened, and look around if that is due."""
        if type(event) not in _HEEDED:
            return []
        actions = self._note(event, now_ms)
        actions += self._routes.ask_where_due(now_ms, self._calm_ms())
        if self._round_due_ms() <= now_ms:
            actions += self._read_all(now_ms) if self._is_broadcast else self._begin(now_ms)
        return actions

    def _note(self, event: Event, now_ms: int) -> list[Action]:
        match event:
            case GroupSeen():
                return self._group_seen(event, now_ms)
            case HoldersSeen():
                self._planner.told(event)
                asks, is_news = self._owners.seen(event, now_ms, self._times.holders_ms)
                if self._lists.spoke(event.broker, event.member) or is_news:
                    self._rounds.want(now_ms)
                return asks + self._end_if_owners_known(now_ms)
            case HoldersFailed():
                self._note_closed(event, now_ms)
                return self._owners.failed(event, now_ms) + self._end_if_owners_known(now_ms)
            case GroupFailed():
                return self._no_list(event.broker, now_ms) if event.ticket == self._ticket else []
            case LineCut():
                return self._cut(event.broker, now_ms)
            case _:
                self._note_a_reason(event, now_ms)
                return []

    def _note_closed(self, event: HoldersFailed, now_ms: int) -> None:
        """Look again at the list after a blip's time if a member was known by a closed line: it may be a phantom."""
        if not event.closed:
            self._lists.spoke(event.broker, event.member)
        elif self._lists.found_closed(event.broker, event.member, now_ms):
            self._rounds.want(now_ms + self._times.departed_ms)

    def _note_a_reason(self, event: Event, now_ms: int) -> None:
        """Take note of what is a reason to look at the group, and nothing else."""
        match event:
            case MembersChanged():
                self._rounds.want(now_ms)
            case Poked():
                self._poked(event, now_ms)
            case BeatAnswered() if self._lines.is_registered(event.broker) and event.broker not in self._registered:
                if event.broker in self._routes.brokers():
                    self._registered.add(event.broker)
                    self._rounds.want(now_ms)
            case RouteSeen() if self._routes.note(event, now_ms):
                self._routes_changed(now_ms)
            case RouteFailed() if self._routes.failed(event.topic, now_ms):
                self._routes_changed(now_ms)
            case _:
                pass

    def _poked(self, event: Poked, now_ms: int) -> None:
        if self._concerns_us(event):
            if event.member is not None:
                self._owners.spoke(event.member, now_ms)
            self._rounds.want(now_ms)
            self._routes.suspect((queue.topic for queue in event.wanted), now_ms)
        if event.member is not None and self._owners.is_back(event.member, now_ms):
            self._rounds.want(now_ms)

    def _concerns_us(self, event: Poked) -> bool:
        """Say whether somebody waits for a queue of ours: then one of us two sees the group or a route wrongly."""
        if not event.wanted:
            return False
        ours = {*(self._planner.plan or ()), *self.held_by_me()}
        return not ours.isdisjoint(event.wanted)

    def _routes_changed(self, now_ms: int) -> None:
        brokers = self._routes.brokers()
        self._registered = {broker for broker in brokers if self._lines.is_registered(broker)}
        self._lists.keep_only(brokers)
        self._unheard = self._still_unheard()
        self._planner.changed_ms = now_ms
        self._rounds.want(now_ms)
        if self._is_broadcast and self._routes.is_complete:
            self._read_all(now_ms)

    def _read_all(self, now_ms: int) -> list[Action]:
        self._planner.read_all(now_ms)
        return []

    def _still_unheard(self) -> tuple[str, ...]:
        return tuple(broker for broker in self._routes.brokers_asked() if not self._lists.knows(broker))

    # -- a round -------------------------------------------------------------------------------------------------------

    def _begin(self, now_ms: int) -> list[Action]:
        self._rounds.begin(now_ms)
        self._ticket += 2
        self._has_answer = False
        brokers = self._routes.brokers_asked()
        asked = [broker for broker in brokers if broker in self._registered]
        for broker in brokers:
            if broker not in self._registered:
                self._lists.no_answer(broker, now_ms)
        self._unanswered = set(asked)
        actions: list[Action] = [AskGroup(broker, self._ticket) for broker in asked]
        # Who was taken for a phantom and answers is none.
        actions += [
            AskHolders(broker, member, ticket=self._ticket, asked_ms=now_ms)
            for broker in asked
            for member in self._lists.phantoms(broker)
        ]
        # None at all, if only brokers are connected that are not asked.
        return actions or self._judge_if_all_answered(now_ms)

    def _group_seen(self, event: GroupSeen, now_ms: int) -> list[Action]:
        actions: list[Action] = []
        has_changed = self._lists.note(event, now_ms)
        if self._unheard:
            self._unheard = self._still_unheard()
        if event.queues is not None and event.broker in self._routes.brokers():
            actions += self._routes.doubt(event.broker, event.queues, now_ms)
        if event.ticket == self._ticket and event.broker in self._unanswered:
            self._unanswered.remove(event.broker)
            self._has_answer = True
            actions += self._judge_if_all_answered(now_ms)
        elif has_changed and event.broker in self._routes.brokers_asked():
            self._rounds.want(now_ms)
        return actions

    def _no_list(self, broker: str, now_ms: int) -> list[Action]:
        if broker not in self._unanswered:
            return []
        self._lists.no_answer(broker, now_ms)
        self._unanswered.remove(broker)
        return self._judge_if_all_answered(now_ms)

    def _cut(self, broker: str, now_ms: int) -> list[Action]:
        self._registered.discard(broker)
        self._lists.no_answer(broker, now_ms)
        actions = self._no_list(broker, now_ms)
        return actions + self._owners.cut(broker, now_ms) + self._end_if_owners_known(now_ms)

    def _judge_if_all_answered(self, now_ms: int) -> list[Action]:
        if self._unanswered:
            return []
        if not self._has_answer:
            self._rounds.end()
            self._rounds.want(self._no_answer.after(now_ms))
            return []
        sight = self._lists.sight(self._routes.brokers_asked(), now_ms)
        actions = self._look_again_where_needed(sight, now_ms)
        if not self._is_sure(sight, now_ms):
            self._rounds.end()
            return actions
        self._rounds.want(sight.again_ms)
        self._sight = sight
        if self._must_ask_for_owners(sight):
            actions += self._owners.begin(self._peers(sight), sight.members, self._ticket, now_ms)
        return actions + self._end_if_owners_known(now_ms)

    def _look_again_where_needed(self, sight: Sight, now_ms: int) -> list[Action]:
        actions: list[Action] = []
        if sight.missing_us:
            for broker in sight.missing_us:
                actions += self._lines.beat(broker, now_ms)
            self._rounds.want(self._own_id.after(now_ms))
        else:
            self._own_id.reset()
        if not sight.is_agreed:
            self._rounds.want(now_ms + self._times.ask_again_ms)
        if all(map(self._lists.answers, self._registered.intersection(self._routes.brokers_asked()))):
            self._no_answer.reset()
        else:
            self._rounds.want(self._no_answer.after(now_ms))
        return actions

    def _is_sure(self, sight: Sight, now_ms: int) -> bool:
        """Say whether to act on a look: with leases or foreign members at once, else when a second one shows the same.

        Foreign members do not wait, and their plans follow from the ids alone, as ours do then: whatever is given up
        later than they take it is handled twice, and whatever is taken later than they give it up waits for nothing.
        """
        is_confirmed = self._second_look.confirms(sight.raw, now_ms)
        if is_confirmed or sight.has_foreign or self._has_leases():
            return True
        again_ms = self._second_look.again_ms
        # Whoever went missing counts as gone a little later than that: one look then does for both.
        is_gone_soon = again_ms < sight.again_ms < again_ms + self._times.round_gap_ms
        self._rounds.want(sight.again_ms if is_gone_soon else again_ms)
        return False

    def _has_leases(self) -> bool:
        return all(self._lines.is_ours(broker) is not False for broker in self._routes.brokers())

    def _must_ask_for_owners(self, sight: Sight) -> bool:
        return (
            remembers(self._options.strategy)
            and not sight.has_foreign
            and len(sight.members) <= self._options.sticky_most
            and not self._has_leases()
        )

    def _peers(self, sight: Sight) -> dict[str, str]:
        """Return whom to ask, each with a broker that lists it, once if there is one.

        A broker that lists a member twice may ask it on a line that is dead, and then it seems to hang.
        """
        asked = [broker for broker in self._routes.brokers_asked() if broker in self._registered]
        peers: dict[str, str] = {}
        for member in sight.members:
            listing = [broker for broker in asked if self._lists.lists(broker, member)]
            if listing and member != self._options.id:
                once = (broker for broker in listing if not self._lists.lists_twice(broker, member))
                peers[member] = next(once, listing[0])
        return peers

    def _end_if_owners_known(self, now_ms: int) -> list[Action]:
        if self._sight is None or not self._owners.is_done:
            return []
        sight, self._sight = self._sight, None
        hazards = self._lists.hazards(self._routes.brokers_asked())
        actions = self._planner.share(sight, self._owners_of(sight, now_ms), hazards, now_ms)
        self._rounds.want(self._planner.again_ms)
        self._rounds.end()
        return actions

    def _owners_of(self, sight: Sight, now_ms: int) -> OwnersSeen:
        if self._has_leases():
            return OwnersSeen(owned_by(sight.owners))
        if not self._must_ask_for_owners(sight):
            return OwnersSeen(None)
        held = self._owners.held()
        others = [member for member in sight.members if member != self._options.id]
        unheard = self._owners.unheard(others, now_ms - self._times.round_soon_ms)
        owner: dict[Queue, str] = {}
        # Of two that say they hold a queue the first counts, at every member; an old report counts for less.
        heard = [member for member in sight.members if member not in unheard]
        for member in (*sorted(unheard), *reversed(heard)):
            mine = self.held_by_me() if member == self._options.id else held.get(member, ())
            owner.update(dict.fromkeys(in_order(mine), member))
        owner.update(sight.owners)
        return OwnersSeen(owned_by(owner), unheard, self._owners.unanswering(others))
