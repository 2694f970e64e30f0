"""The servers of a simulated world, by one name."""

from steelyard.sim.broker_process import BrokerProcess
from steelyard.sim.nameserver_process import NameServerProcess

__all__ = ["BrokerProcess", "NameServerProcess"]
