package client;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Consumers that are handed messages. A message says itself how it wants to be handled: with "fails", it fails so many
 * times; with "again_level", it asks for that delay before the next time; with "slow_ms", handling it takes that long.
 * A consumer that is "watched" tells of every change of its queues; "allocate" names how its group shares them.
 */
@SuppressWarnings("deprecation")
final class PushConsumers {
    private static final Map<String, DefaultMQPushConsumer> CONSUMERS = new ConcurrentHashMap<>();
    private static final int SUSPEND_MS = 100;

    private PushConsumers() {
    }

    static void add(Map<String, Client.Verb> verbs) {
        verbs.put("push", PushConsumers::start);
        verbs.put("push-stop", PushConsumers::stop);
        verbs.put("push-owned", words -> Messages.told(Watch.owned(of(words))));
        verbs.put("push-persist", words -> {
            of(words).getDefaultMQPushConsumerImpl().persistConsumerOffset();
            return null;
        });
    }

    private static DefaultMQPushConsumer of(JSONObject words) {
        return CONSUMERS.get(words.getString("name"));
    }

    private static Object start(JSONObject words) throws Exception {
        String name = words.getString("name");
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(words.getString("group"), words.getBooleanValue("trace"), null);
        consumer.setNamesrvAddr(words.getString("name_server"));
        Settings.apply(consumer, words.getJSONObject("settings"));
        subscribe(consumer, words.getJSONArray("subscriptions"));
        if (words.containsKey("allocate")) {
            consumer.setAllocateMessageQueueStrategy(Strategies.made(words.getJSONObject("allocate")));
        }
        String replier = words.getString("replies_with");
        if (words.getBooleanValue("orderly")) {
            consumer.registerMessageListener(orderly(name));
        } else {
            consumer.registerMessageListener(concurrent(name, replier));
        }
        if (words.getBooleanValue("watched")) {
            Watch.start(name, consumer);
        }
        consumer.start();
        CONSUMERS.put(name, consumer);
        return consumer.buildMQClientId();
    }

    private static Object stop(JSONObject words) {
        String name = words.getString("name");
        Watch.stop(name);
        return Client.stop(words, CONSUMERS.remove(name)::shutdown);
    }

    private static void subscribe(DefaultMQPushConsumer consumer, JSONArray subscriptions) throws Exception {
        for (int i = 0; i < subscriptions.size(); i++) {
            JSONArray each = subscriptions.getJSONArray(i);
            consumer.subscribe(each.getString(0), selector(each));
        }
    }

    /** A subscription is a topic, TAG or SQL92, and an expression. */
    static MessageSelector selector(JSONArray subscription) {
        String expression = subscription.getString(2);
        boolean sql = subscription.getString(1).equals("SQL92");
        return sql ? MessageSelector.bySql(expression) : MessageSelector.byTag(expression);
    }

    private static MessageListenerConcurrently concurrent(String name, String replier) {
        return (messages, context) -> {
            MessageExt first = messages.get(0);
            boolean fine = handled(name, messages);
            if (first.getUserProperty("again_level") != null) {
                context.setDelayLevelWhenNextConsume(Integer.parseInt(first.getUserProperty("again_level")));
            }
            if (replier != null) {
                reply(replier, first);
            }
            return fine ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        };
    }

    private static MessageListenerOrderly orderly(String name) {
        return (messages, context) -> {
            context.setSuspendCurrentQueueTimeMillis(SUSPEND_MS);
            return handled(name, messages)
                ? ConsumeOrderlyStatus.SUCCESS
                : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
        };
    }

    private static boolean handled(String name, List<MessageExt> messages) {
        boolean fine = true;
        for (MessageExt message : messages) {
            String fails = message.getUserProperty("fails");
            boolean failed = fails != null && message.getReconsumeTimes() < Integer.parseInt(fails);
            fine &= !failed;
            Map<String, Object> facts = new LinkedHashMap<>();
            facts.put("message", Messages.told(message));
            facts.put("failed", failed);
            facts.put("at_ms", System.currentTimeMillis());
            facts.put("batch", messages.size());
            Client.event("message", name, facts);
            slow(message.getUserProperty("slow_ms"));
        }
        return fine;
    }

    private static void slow(String slowMs) {
        if (slowMs != null) {
            try {
                Thread.sleep(Long.parseLong(slowMs));
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static void reply(String replier, MessageExt question) {
        try {
            String text = "re: " + new String(question.getBody(), StandardCharsets.UTF_8);
            byte[] body = text.getBytes(StandardCharsets.UTF_8);
            Producers.named(replier).send(MessageUtil.createReplyMessage(question, body));
        } catch (Exception thrown) {
            Client.event("not-replied", replier, Map.of("thrown", String.valueOf(thrown)));
        }
    }
}
