package client;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages looked up by a producer: by key, by either id; and by a puller, by their place. */
@SuppressWarnings("deprecation")
final class Queries {
    private Queries() {
    }

    static void add(Map<String, Client.Verb> verbs) {
        verbs.put("view", words ->
            Messages.told(of(words).viewMessage(words.getString("topic"), words.getString("id"))));
        verbs.put("query", words -> Messages.toldAll(of(words).queryMessage(
            words.getString("topic"), words.getString("key"), words.getIntValue("most"),
            words.getLongValue("from_ms"), words.getLongValue("to_ms")).getMessageList()));
    }

    /** The one message at an offset of a queue. */
    static MessageExt byPlace(JSONObject words) throws Exception {
        DefaultMQPullConsumer consumer = PullConsumers.of(words);
        JSONArray queue = words.getJSONArray("queue");
        PullResult result = consumer.pull(Messages.queue(queue), "*", words.getLongValue("offset"), 1);
        return result.getMsgFoundList().get(0);
    }

    private static DefaultMQProducer of(JSONObject words) {
        return Producers.named(words.getString("name"));
    }
}
