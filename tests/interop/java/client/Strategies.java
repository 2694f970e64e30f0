package client;

import com.alibaba.fastjson.JSONObject;
import java.util.HashSet;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * How members share queues, by Java's names: {"name": "AVG"}; MACHINE_ROOM has "rooms", CONFIG has "queues". With
 * MACHINE_ROOM_NEARBY a broker stands in the room before the @ of its name, a member in the one that its instance's name
 * begins with: 10.0.0.7@east.till-1.
 */
final class Strategies {
    private static final AllocateMachineRoomNearby.MachineRoomResolver ROOMS =
        new AllocateMachineRoomNearby.MachineRoomResolver() {
            @Override
            public String brokerDeployIn(MessageQueue queue) {
                return queue.getBrokerName().split("@")[0];
            }

            @Override
            public String consumerDeployIn(String clientId) {
                return clientId.split("@")[1].split("\\.")[0];
            }
        };

    private Strategies() {
    }

    static AllocateMessageQueueStrategy made(JSONObject words) {
        switch (words.getString("name")) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH":
                return new AllocateMessageQueueConsistentHash();
            case "MACHINE_ROOM":
                AllocateMessageQueueByMachineRoom byRoom = new AllocateMessageQueueByMachineRoom();
                byRoom.setConsumeridcs(new HashSet<>(words.getJSONArray("rooms").toJavaList(String.class)));
                return byRoom;
            case "MACHINE_ROOM_NEARBY":
                return new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), ROOMS);
            case "CONFIG":
                AllocateMessageQueueByConfig byConfig = new AllocateMessageQueueByConfig();
                byConfig.setMessageQueueList(Messages.queues(words.getJSONArray("queues")));
                return byConfig;
            default:
                throw new IllegalArgumentException("no strategy " + words);
        }
    }
}
