package client;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages, queues and results of sends as the lines have them. */
final class Messages {
    /** Longer bodies are told by their length and sum alone. */
    private static final int SHOWN = 1000;

    private Messages() {
    }

    /** A body is given as text, or as a letter and how often. */
    static Message read(JSONObject words) {
        String text = words.getString("body");
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        if (words.containsKey("times")) {
            body = new byte[words.getIntValue("times")];
            Arrays.fill(body, (byte) text.charAt(0));
        }
        Message message = new Message(words.getString("topic"), words.getString("tags"), words.getString("keys"), body);
        if (words.containsKey("level")) {
            message.setDelayTimeLevel(words.getIntValue("level"));
        }
        JSONObject properties = words.getJSONObject("properties");
        if (properties != null) {
            // Past the check for reserved names: 4.9 has no setter for what only 5.x knows.
            properties.forEach((name, value) -> MessageAccessor.putProperty(message, name, String.valueOf(value)));
        }
        return message;
    }

    static List<Message> readAll(JSONArray many) {
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < many.size(); i++) {
            messages.add(read(many.getJSONObject(i)));
        }
        return messages;
    }

    static Map<String, Object> told(MessageExt message) {
        CRC32 sum = new CRC32();
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody();
        sum.update(body);
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("topic", message.getTopic());
        told.put("broker", message.getBrokerName());
        told.put("queue", message.getQueueId());
        told.put("offset", message.getQueueOffset());
        told.put("body", body.length > SHOWN ? null : new String(body, StandardCharsets.UTF_8));
        told.put("size", body.length);
        told.put("sum", sum.getValue());
        told.put("tags", message.getTags());
        told.put("keys", message.getKeys());
        told.put("id", message.getMsgId());
        told.put("unique", MessageClientIDSetter.getUniqID(message));
        told.put("times", message.getReconsumeTimes());
        told.put("born_ms", message.getBornTimestamp());
        told.put("stored_ms", message.getStoreTimestamp());
        told.put("sys_flag", message.getSysFlag());
        told.put("properties", message.getProperties());
        return told;
    }

    static List<Object> toldAll(Collection<MessageExt> messages) {
        List<Object> told = new ArrayList<>();
        if (messages != null) {
            messages.forEach(message -> told.add(told(message)));
        }
        return told;
    }

    static Map<String, Object> told(SendResult result) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("status", result.getSendStatus().name());
        told.put("id", result.getMsgId());
        told.put("offset_id", result.getOffsetMsgId());
        told.put("queue", result.getMessageQueue() == null ? -1 : result.getMessageQueue().getQueueId());
        told.put("offset", result.getQueueOffset());
        return told;
    }

    static MessageQueue queue(JSONArray words) {
        return new MessageQueue(words.getString(0), words.getString(1), words.getIntValue(2));
    }

    static List<MessageQueue> queues(JSONArray many) {
        List<MessageQueue> queues = new ArrayList<>();
        for (int i = 0; i < many.size(); i++) {
            queues.add(queue(many.getJSONArray(i)));
        }
        return queues;
    }

    static List<Object> told(Collection<MessageQueue> queues) {
        List<MessageQueue> sorted = new ArrayList<>(queues);
        sorted.sort(null);
        List<Object> told = new ArrayList<>();
        sorted.forEach(queue -> told.add(Arrays.asList(queue.getTopic(), queue.getBrokerName(), queue.getQueueId())));
        return told;
    }
}
