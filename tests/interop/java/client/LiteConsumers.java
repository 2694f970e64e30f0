package client;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.message.MessageQueue;

/** The consumer that is polled: it subscribes with a group, or is assigned queues. */
@SuppressWarnings("deprecation")
final class LiteConsumers {
    private static final Map<String, DefaultLitePullConsumer> CONSUMERS = new ConcurrentHashMap<>();

    private LiteConsumers() {
    }

    static void add(Map<String, Client.Verb> verbs) {
        verbs.put("lite", LiteConsumers::start);
        verbs.put("lite-stop", words -> Client.stop(words, CONSUMERS.remove(words.getString("name"))::shutdown));
        verbs.put("lite-queues", words -> Messages.told(of(words).fetchMessageQueues(words.getString("topic"))));
        verbs.put("lite-owned", words -> Messages.told(of(words).assignment()));
        verbs.put("lite-poll", words -> Messages.toldAll(of(words).poll(words.getLongValue("wait_ms"))));
        verbs.put("lite-committed", words -> of(words).committed(queue(words)));
        verbs.put("lite-search", words -> of(words).offsetForTimestamp(queue(words), words.getLong("at_ms")));
        verbs.put("lite-commit", words -> {
            of(words).commitSync();
            return null;
        });
        verbs.put("lite-seek", words -> {
            String where = words.getString("where");
            if (where.equals("begin")) {
                of(words).seekToBegin(queue(words));
            } else if (where.equals("end")) {
                of(words).seekToEnd(queue(words));
            } else {
                of(words).seek(queue(words), Long.parseLong(where));
            }
            return null;
        });
    }

    private static DefaultLitePullConsumer of(JSONObject words) {
        return CONSUMERS.get(words.getString("name"));
    }

    private static MessageQueue queue(JSONObject words) {
        return Messages.queue(words.getJSONArray("queue"));
    }

    private static Object start(JSONObject words) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(words.getString("group"));
        consumer.setNamesrvAddr(words.getString("name_server"));
        Settings.apply(consumer, words.getJSONObject("settings"));
        JSONArray subscriptions = words.getJSONArray("subscriptions");
        for (int i = 0; i < subscriptions.size(); i++) {
            JSONArray each = subscriptions.getJSONArray(i);
            consumer.subscribe(each.getString(0), PushConsumers.selector(each));
        }
        consumer.start();
        if (words.containsKey("queues")) {
            consumer.assign(Messages.queues(words.getJSONArray("queues")));
        }
        CONSUMERS.put(words.getString("name"), consumer);
        return consumer.buildMQClientId();
    }
}
