"""One member of a consumer group as a state machine (`member.MemberStateMachine`): events go in, actions come out."""
