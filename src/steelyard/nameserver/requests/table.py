"""Which request is answered by which function: all that a name server is asked."""

from collections.abc import Mapping
from types import MappingProxyType

from steelyard.nameserver.requests import registration, routes, settings, topics
from steelyard.nameserver.requests.topics import UNIT, UNIT_SUBSCRIPTION, flagged_topics
from steelyard.nameserver.state import Handler
from steelyard.wire.codes import RequestCode as Code

__all__ = ["HANDLERS"]

HANDLERS: Mapping[int, Handler] = MappingProxyType(
    {
        Code.PUT_KV_CONFIG: settings.put,
        Code.GET_KV_CONFIG: settings.get,
        Code.DELETE_KV_CONFIG: settings.delete,
        Code.GET_KVLIST_BY_NAMESPACE: settings.listed,
        Code.UPDATE_NAMESRV_CONFIG: settings.change,
        Code.GET_NAMESRV_CONFIG: settings.show,
        Code.REGISTER_BROKER: registration.register,
        Code.UNREGISTER_BROKER: registration.unregister,
        Code.QUERY_DATA_VERSION: registration.query_version,
        Code.BROKER_HEARTBEAT: registration.beat,
        Code.GET_ROUTEINFO_BY_TOPIC: routes.route,
        Code.GET_BROKER_CLUSTER_INFO: routes.clusters,
        Code.GET_BROKER_MEMBER_GROUP: routes.replicas,
        Code.WIPE_WRITE_PERM_OF_BROKER: routes.stop_writing,
        Code.ADD_WRITE_PERM_OF_BROKER: routes.allow_writing,
        Code.DELETE_TOPIC_IN_NAMESRV: routes.delete_topic,
        Code.REGISTER_TOPIC_IN_NAMESRV: routes.add_queues,
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: topics.all_topics,
        Code.GET_TOPICS_BY_CLUSTER: topics.topics_of_cluster,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: topics.own_topics,
        Code.GET_UNIT_TOPIC_LIST: flagged_topics(has=UNIT),
        Code.GET_HAS_UNIT_SUB_TOPIC_LIST: flagged_topics(has=UNIT_SUBSCRIPTION),
        Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: flagged_topics(has=UNIT_SUBSCRIPTION, lacks=UNIT),
    }
)
"""By request code. What is not listed is answered with 3."""
