"""What a member says to brokers and name servers, and what it hears: actions to commands, answers to events."""
