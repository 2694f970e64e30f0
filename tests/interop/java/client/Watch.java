package client;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Tells which queues a member holds, whenever that is another set than before: {"event": "queues", "at_ms": …, "queues":
 * […]}. Releases differ in what they tell listeners, so the member's own table is looked at every few milliseconds.
 */
@SuppressWarnings("deprecation")
final class Watch {
    private static final int EVERY_MS = 5;
    private static final Map<String, Thread> WATCHES = new ConcurrentHashMap<>();

    private Watch() {
    }

    static void start(String name, DefaultMQPushConsumer consumer) {
        Thread watch = new Thread(() -> run(name, consumer));
        watch.setDaemon(true);
        WATCHES.put(name, watch);
        watch.start();
    }

    static void stop(String name) {
        Thread watch = WATCHES.remove(name);
        if (watch != null) {
            watch.interrupt();
        }
    }

    static List<MessageQueue> owned(DefaultMQPushConsumer consumer) {
        List<MessageQueue> owned = new ArrayList<>();
        Map<MessageQueue, ProcessQueue> table =
            consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable();
        table.forEach((queue, held) -> {
            if (!held.isDropped()) {
                owned.add(queue);
            }
        });
        return owned;
    }

    private static void run(String name, DefaultMQPushConsumer consumer) {
        List<Object> last = List.of();
        try {
            while (true) {
                List<Object> now = Messages.told(owned(consumer));
                if (!now.equals(last)) {
                    last = now;
                    Map<String, Object> facts = new LinkedHashMap<>();
                    facts.put("at_ms", System.currentTimeMillis());
                    facts.put("id", consumer.buildMQClientId());
                    facts.put("queues", now);
                    Client.event("queues", name, facts);
                }
                Thread.sleep(EVERY_MS);
            }
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }
}
