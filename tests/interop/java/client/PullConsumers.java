package client;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.message.MessageQueue;

/** The oldest consumer: whoever uses it holds the loop, the queues and the offsets. */
@SuppressWarnings("deprecation")
final class PullConsumers {
    private static final Map<String, DefaultMQPullConsumer> CONSUMERS = new ConcurrentHashMap<>();

    private PullConsumers() {
    }

    static void add(Map<String, Client.Verb> verbs) {
        verbs.put("puller", PullConsumers::start);
        verbs.put("puller-stop", words -> Client.stop(words, CONSUMERS.remove(words.getString("name"))::shutdown));
        verbs.put("puller-queues", words ->
            Messages.told(of(words).fetchSubscribeMessageQueues(words.getString("topic"))));
        verbs.put("puller-pull", PullConsumers::pull);
        verbs.put("puller-commit", words -> {
            of(words).updateConsumeOffset(queue(words), words.getLongValue("offset"));
            of(words).getOffsetStore().persist(queue(words));
            return null;
        });
        verbs.put("puller-committed", words -> of(words).fetchConsumeOffset(queue(words), true));
        verbs.put("puller-bounds", words -> new long[] {of(words).minOffset(queue(words)), of(words).maxOffset(queue(words))});
        verbs.put("puller-search", words -> of(words).searchOffset(queue(words), words.getLongValue("at_ms")));
        verbs.put("puller-earliest", words -> of(words).earliestMsgStoreTime(queue(words)));
        verbs.put("puller-give-back", words -> {
            // By the offset id, as a handler that failed does it.
            of(words).sendMessageBack(Queries.byPlace(words), words.getIntValue("level"), null);
            return null;
        });
    }

    static DefaultMQPullConsumer of(JSONObject words) {
        return CONSUMERS.get(words.getString("name"));
    }

    private static MessageQueue queue(JSONObject words) {
        return Messages.queue(words.getJSONArray("queue"));
    }

    private static Object start(JSONObject words) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(words.getString("group"));
        consumer.setNamesrvAddr(words.getString("name_server"));
        Settings.apply(consumer, words.getJSONObject("settings"));
        consumer.start();
        CONSUMERS.put(words.getString("name"), consumer);
        return consumer.buildMQClientId();
    }

    private static Object pull(JSONObject words) throws Exception {
        JSONArray subscription = new JSONArray();
        subscription.add(queue(words).getTopic());
        subscription.add(words.getString("kind"));
        subscription.add(words.getString("expression"));
        PullResult result = words.getBooleanValue("wait")
            ? of(words).pullBlockIfNotFound(
                queue(words), words.getString("expression"), words.getLongValue("offset"), words.getIntValue("most"))
            : of(words).pull(
                queue(words), PushConsumers.selector(subscription), words.getLongValue("offset"),
                words.getIntValue("most"));
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("status", result.getPullStatus().name());
        told.put("next", result.getNextBeginOffset());
        told.put("min", result.getMinOffset());
        told.put("max", result.getMaxOffset());
        told.put("messages", Messages.toldAll(result.getMsgFoundList()));
        return told;
    }
}
