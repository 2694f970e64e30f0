package peer;

import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageId;

/** The two ids of a message. */
final class Ids {
    private Ids() {
    }

    static Object writeOffsetId(Words words) throws UnknownHostException {
        InetSocketAddress host = Records.host(words);
        return MessageDecoder.createMessageId(host, words.big());
    }

    static Object readOffsetId(Words words) throws UnknownHostException {
        MessageId id = MessageDecoder.decodeMessageId(words.text());
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("host", Records.text((InetSocketAddress) id.getAddress()));
        found.put("position", id.getOffset());
        return found;
    }

    /** Make a key as a producer does, and tell what it was made of. */
    static Object writeUniqueKey(Words words) {
        Map<String, Object> made = new LinkedHashMap<>();
        made.put("earliest_ms", System.currentTimeMillis());
        made.put("key", MessageClientIDSetter.createUniqID());
        made.put("latest_ms", System.currentTimeMillis());
        made.put("pid", UtilAll.getPid());
        made.put("address", Words.hex(UtilAll.getIP()));
        made.put("process", MessageClientIDSetter.class.getClassLoader().hashCode());
        return made;
    }

    static Object readUniqueKey(Words words) {
        String key = words.text();
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("address", Words.hex(MessageClientIDSetter.getIPFromID(key)));
        found.put("pid", MessageClientIDSetter.getPidFromID(key));
        found.put("made_ms", MessageClientIDSetter.getNearlyTimeFromID(key).getTime());
        return found;
    }
}
