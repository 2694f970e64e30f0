package peer;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.compression.CompressorFactory;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;

/** Stored messages, as a consumer reads them and as a broker writes one for a check or a direct handling. */
final class Records {
    private static final int LEVEL = 5;

    private Records() {
    }

    static Object read(Words words) {
        return described(MessageDecoder.decodes(ByteBuffer.wrap(words.bytes()), true));
    }

    static Object unwrap(Words words) throws ReflectiveOperationException {
        MessageExt outer = MessageDecoder.decodes(ByteBuffer.wrap(words.bytes()), true).get(0);
        List<MessageExt> inner = new ArrayList<>();
        // Only 5.x has inner batches.
        MessageDecoder.class.getMethod("decodeMessage", MessageExt.class, List.class).invoke(null, outer, inner);
        return described(inner);
    }

    static Object write(Words words) throws Exception {
        MessageExt message = new MessageExt();
        message.setTopic(words.text());
        message.setQueueId(words.number());
        message.setQueueOffset(words.big());
        message.setCommitLogOffset(words.big());
        message.setBody(words.bytes());
        message.setBornTimestamp(words.big());
        message.setBornHost(host(words));
        message.setStoreTimestamp(words.big());
        message.setStoreHost(host(words));
        message.setFlag(words.number());
        message.setSysFlag(words.number());
        message.setReconsumeTimes(words.number());
        message.setPreparedTransactionOffset(words.big());
        message.setBodyCRC(words.number());
        MessageAccessor.setProperties(message, words.pairs());
        return Words.hex(MessageDecoder.encode(message, true));
    }

    static Object compress(Words words) throws Exception {
        CompressionType kind = CompressionType.valueOf(words.text());
        return Words.hex(CompressorFactory.getCompressor(kind).compress(words.bytes(), LEVEL));
    }

    static Object decompress(Words words) throws Exception {
        CompressionType kind = CompressionType.valueOf(words.text());
        return Words.hex(CompressorFactory.getCompressor(kind).decompress(words.bytes()));
    }

    static InetSocketAddress host(Words words) throws UnknownHostException {
        byte[] address = words.bytes();
        return new InetSocketAddress(InetAddress.getByAddress(address), words.number());
    }

    static String text(InetSocketAddress host) {
        return Words.hex(host.getAddress().getAddress()) + ":" + host.getPort();
    }

    private static List<Object> described(List<MessageExt> messages) {
        List<Object> all = new ArrayList<>();
        for (MessageExt message : messages) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("topic", message.getTopic());
            one.put("queue_id", message.getQueueId());
            one.put("offset", message.getQueueOffset());
            one.put("position", message.getCommitLogOffset());
            one.put("body", Words.hex(message.getBody()));
            one.put("properties", message.getProperties());
            one.put("born_ms", message.getBornTimestamp());
            one.put("born_host", text((InetSocketAddress) message.getBornHost()));
            one.put("stored_ms", message.getStoreTimestamp());
            one.put("store_host", text((InetSocketAddress) message.getStoreHost()));
            one.put("flag", message.getFlag());
            one.put("sys_flag", message.getSysFlag());
            one.put("reconsume_times", message.getReconsumeTimes());
            one.put("prepared_offset", message.getPreparedTransactionOffset());
            one.put("crc", message.getBodyCRC());
            one.put("size", message.getStoreSize());
            one.put("message_id", message.getMsgId());
            one.put("offset_id", ((MessageClientExt) message).getOffsetMsgId());
            all.add(one);
        }
        return all;
    }
}
