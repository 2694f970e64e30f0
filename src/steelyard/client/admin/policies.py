"""What users of Apache RocketMQ from 5.3 on may do: rules, each for one user and one resource.

A resource is ``topic:orders``, ``group:billing``, ``cluster:main``, with ``*`` for all of a kind and ``orders-*`` for
those that begin so. Names are the servers' own: a namespace is a part of them. Rules are kept by every process of a
broker for itself, as users are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from steelyard.client.admin.asking import together
from steelyard.client.admin.servers import Server
from steelyard.client.admin.users import Copied, Users, listed, missing_user
from steelyard.client.nearest import nearest
from steelyard.errors import ConfigurationError, IllegalOperation, PolicyNotFound
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.access import AccessRules, Policy, PolicyEntry
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.admin import Policies as PolicyFilter
from steelyard.wire.headers.admin import PolicySubject

__all__ = ["Policies", "Rule", "action_named", "resource_named"]

_USER = "User:"
_ANYTHING = "*"
_RESOURCES = {each.lower(): each for each in ("Cluster", "Namespace", "Topic", "Group")}
_ACTIONS = {each.lower(): each for each in ("All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")}
_DECISIONS = {True: "Allow", False: "Deny"}


@dataclass(frozen=True, slots=True)
class Rule:
    """What a user may or may not do with a resource, and which processes of brokers say so."""

    user: str
    resource: str
    actions: tuple[str, ...]
    allows: bool
    sources: tuple[str, ...] = ()
    """The addresses and networks that it is about; all, if there are none."""
    kind: str = "Custom"
    servers: tuple[str, ...] = ()


class Policies(Users):
    """What an administrator does with rules."""

    async def policies(
        self,
        user: str | None = None,
        resource: str | None = None,
        *,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> list[Rule]:
        """List the rules of one user or of all, on resources whose name contains something or on all."""
        found: dict[Rule, list[str]] = {}
        for server, rules in await self._rules_by_server(broker, cluster):
            for rule in rules:
                if user in (None, rule.user) and (resource or "").lower() in rule.resource.lower():
                    found.setdefault(rule, []).append(str(server))
        told = [replace(rule, servers=tuple(servers)) for rule, servers in found.items()]
        return sorted(told, key=lambda each: (each.user, each.resource, each.servers))

    async def create_policy(self, rule: Rule, *, broker: str | None = None, cluster: str | None = None) -> list[Server]:
        """Add a rule; one for the same user and resource is not replaced."""
        await self.user(rule.user, broker=broker, cluster=cluster)
        if await self._has_rule(rule, broker, cluster):
            raise IllegalOperation(
                code=int(ResponseCode.NO_PERMISSION),
                server=str(self._connect),
                what=f"user {rule.user!r} has a rule on {rule.resource} already",
                next_step="change it with: steelyard access policy set",
            )
        return await self._put_rules(RequestCode.AUTH_CREATE_ACL, rule.user, [rule], broker, cluster)

    async def set_policy(self, rule: Rule, *, broker: str | None = None, cluster: str | None = None) -> list[Server]:
        """Replace the rule for a user and a resource."""
        await self.user(rule.user, broker=broker, cluster=cluster)
        if not await self._has_rule(rule, broker, cluster):
            raise self._no_rule(rule.user, rule.resource, "Make it with: steelyard access policy create")
        return await self._put_rules(RequestCode.AUTH_UPDATE_ACL, rule.user, [rule], broker, cluster)

    async def delete_policy(
        self, user: str, resource: str | None = None, *, broker: str | None = None, cluster: str | None = None
    ) -> list[Server]:
        """Delete a user's rule on a resource, or all of its rules."""
        await self.user(user, broker=broker, cluster=cluster)
        there = await self.policies(user, broker=broker, cluster=cluster)
        if not any(resource in (None, rule.resource) for rule in there):
            raise self._no_rule(user, resource or "anything", "See which there are: steelyard access policy ls")

        async def delete(server: Server) -> None:
            asked = PolicySubject(_USER + user, resource=resource)
            await self._ask_for_users(server, RequestCode.AUTH_DELETE_ACL, asked)

        with_rules = {name for rule in there if resource in (None, rule.resource) for name in rule.servers}
        servers = await self.servers(broker, cluster=cluster)
        return await self._on_each([server for server in servers if str(server) in with_rules], delete)

    async def copy_policies(self, source: str, target: str, users: Iterable[str] | None = None) -> list[Copied]:
        """Copy the rules of users from one broker to another; rules on the same resource are replaced."""
        (_, rules), *_ = await self._rules_by_server(source, None)
        by_user: dict[str, list[Rule]] = {}
        for rule in rules:
            by_user.setdefault(rule.user, []).append(rule)
        wanted = list(by_user) if users is None else list(users)
        for user in wanted:
            if user not in by_user:
                raise self._no_rule(
                    user, "anything", f"See which {source} has: steelyard access policy ls --broker {source}"
                )
        known = {each.name for each in await self.users(broker=target)}
        there = {rule.user for _, each in await self._rules_by_server(target, None) for rule in each}
        for user in wanted:
            if user not in known:
                raise missing_user(user, known, target)
        for user in wanted:
            await self._put_rules(RequestCode.AUTH_UPDATE_ACL, user, by_user[user], target, None)
        return [Copied(user, user in there) for user in wanted]

    # -- asking -------------------------------------------------------------------------------------------------------

    async def _rules_by_server(self, broker: str | None, cluster: str | None) -> list[tuple[Server, list[Rule]]]:
        async def ask(server: Server) -> tuple[Server, list[Rule]]:
            answer = await self._ask_for_users(server, RequestCode.AUTH_LIST_ACL, PolicyFilter())
            return server, [rule for rules in listed(tuple[AccessRules, ...], answer) for rule in _rules(rules)]

        return await together(ask, await self.servers(broker, cluster=cluster))

    async def _has_rule(self, rule: Rule, broker: str | None, cluster: str | None) -> bool:
        there = await self.policies(rule.user, broker=broker, cluster=cluster)
        return any(each.resource == rule.resource for each in there)

    async def _put_rules(
        self, code: RequestCode, user: str, rules: Sequence[Rule], broker: str | None, cluster: str | None
    ) -> list[Server]:
        kinds = dict.fromkeys(rule.kind for rule in rules)
        policies = tuple(
            Policy(kind=kind, entries=tuple(_entry(each) for each in rules if each.kind == kind)) for kind in kinds
        )
        body = encode_body(AccessRules(subject=_USER + user, policies=policies))

        async def put(server: Server) -> None:
            await self._ask_for_users(server, code, PolicySubject(_USER + user), body)

        return await self._on_each(await self.servers(broker, cluster=cluster), put)

    def _no_rule(self, user: str, resource: str, next_step: str) -> PolicyNotFound:
        return PolicyNotFound(
            code=int(ResponseCode.POLICY_NOT_EXIST),
            server=str(self._connect),
            what=f"user {user!r} has no rule on {resource}.",
            next_step=next_step,
        )


def resource_named(text: str) -> str:
    """Return a resource as servers write it.

    >>> resource_named("topic:orders"), resource_named("*"), resource_named("group:billing-*")
    ('Topic:orders', '*', 'Group:billing-*')
    """
    if text == _ANYTHING:
        return text
    kind, colon, name = text.partition(":")
    if not colon or not name or kind.lower() not in _RESOURCES:
        raise ConfigurationError(
            f"{text!r} is no resource", next_step="write topic:NAME, group:NAME, cluster:NAME or *; NAME may end with *"
        )
    return f"{_RESOURCES[kind.lower()]}:{name}"


def action_named(text: str) -> str:
    """Return an action as servers write it.

    >>> action_named("pub")
    'Pub'
    """
    found = _ACTIONS.get(text.strip().lower())
    if found is None:
        meant = nearest(text, _ACTIONS)
        hint = f"did you mean {meant!r}?" if meant else f"give some of: {', '.join(_ACTIONS)}"
        raise ConfigurationError(f"{text!r} is nothing that can be done", next_step=hint)
    return found


def _rules(told: AccessRules) -> Iterable[Rule]:
    for policy in told.policies or ():
        for entry in policy.entries or ():
            yield Rule(
                (told.subject or "").removeprefix(_USER),
                entry.resource or "",
                entry.actions or (),
                (entry.decision or "").lower() != _DECISIONS[False].lower(),
                entry.source_ips or (),
                policy.kind or "Custom",
            )


def _entry(rule: Rule) -> PolicyEntry:
    return PolicyEntry(
        resource=rule.resource,
        actions=rule.actions,
        decision=_DECISIONS[rule.allows],
        source_ips=rule.sources,
    )
