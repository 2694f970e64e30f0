package peer;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;

/** What a producer sends: batches, and the properties text of one message. */
final class Batches {
    private Batches() {
    }

    static Object read(Words words) throws Exception {
        List<Object> items = new ArrayList<>();
        for (Message message : MessageDecoder.decodeMessages(ByteBuffer.wrap(words.bytes()))) {
            Map<String, Object> item = new LinkedHashMap<>();
            item.put("flag", message.getFlag());
            item.put("body", Words.hex(message.getBody()));
            item.put("properties", message.getProperties());
            items.add(item);
        }
        return items;
    }

    static Object write(Words words) {
        List<Message> messages = new ArrayList<>();
        while (words.more()) {
            Message message = new Message();
            message.setFlag(words.number());
            message.setBody(words.bytes());
            MessageAccessor.setProperties(message, words.pairs());
            messages.add(message);
        }
        return Words.hex(MessageDecoder.encodeMessages(messages));
    }

    static Object readProperties(Words words) {
        // As a record's are read: bytes to text first.
        return MessageDecoder.string2messageProperties(new String(words.bytes(), StandardCharsets.UTF_8));
    }

    static Object writeProperties(Words words) {
        String written = MessageDecoder.messageProperties2String(words.pairs());
        return Words.hex(written.getBytes(StandardCharsets.UTF_8));
    }
}
