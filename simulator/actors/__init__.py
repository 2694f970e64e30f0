"""Programs of the simulated world: brokers, name servers, members, producers, an admin."""
