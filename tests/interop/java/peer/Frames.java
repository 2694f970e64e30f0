package peer;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.embedded.EmbeddedChannel;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.remoting.netty.NettyDecoder;
import org.apache.rocketmq.remoting.netty.NettyEncoder;
import org.apache.rocketmq.remoting.protocol.LanguageCode;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;

/** Frames, through the very handlers that Apache's clients and servers have on their lines. */
final class Frames {
    private Frames() {
    }

    static RemotingCommand decode(byte[] frame) {
        EmbeddedChannel line = new EmbeddedChannel(new NettyDecoder());
        line.writeInbound(Unpooled.wrappedBuffer(frame));
        RemotingCommand command = line.readInbound();
        if (command == null) {
            throw new IllegalArgumentException(line.isOpen() ? "the frame is not complete" : "the line was closed");
        }
        line.close();
        return command;
    }

    static Object read(Words words) {
        RemotingCommand command = decode(words.bytes());
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("code", command.getCode());
        found.put("flag", command.getFlag());
        found.put("opaque", command.getOpaque());
        found.put("version", command.getVersion());
        found.put("language", command.getLanguage());
        found.put("remark", command.getRemark());
        found.put("fields", command.getExtFields() == null ? null : new TreeMap<>(command.getExtFields()));
        found.put("body", Words.hex(command.getBody()));
        found.put("type", command.getSerializeTypeCurrentRPC());
        return found;
    }

    /** Write a command; with a class, its fields are a header of that class, otherwise they are given as they are. */
    static Object write(Words words) throws Exception {
        String way = words.text();
        String type = words.text();
        String kind = words.text();
        RemotingCommand command = RemotingCommand.createRequestCommand(words.number(), null);
        command.setOpaque(words.number());
        command.setFlag(words.number());
        command.setVersion(words.number());
        command.setLanguage(LanguageCode.valueOf(words.text()));
        command.setRemark(words.text());
        command.setBody(words.bytes());
        command.setSerializeTypeCurrentRPC(SerializeType.valueOf(type));
        Map<String, String> fields = words.pairs();
        if (kind == null) {
            command.setExtFields(new HashMap<>(fields));
        } else {
            command.writeCustomHeader(Headers.filled(kind, fields));
        }
        return Words.hex(way.equals("line") ? onTheLine(command) : alone(command));
    }

    private static byte[] onTheLine(RemotingCommand command) {
        EmbeddedChannel line = new EmbeddedChannel(new NettyEncoder());
        line.writeOutbound(command);
        ByteBuf written = line.readOutbound();
        byte[] frame = new byte[written.readableBytes()];
        written.readBytes(frame);
        written.release();
        line.close();
        return frame;
    }

    private static byte[] alone(RemotingCommand command) {
        ByteBuffer written = command.encode();
        byte[] frame = new byte[written.remaining()];
        written.get(frame);
        return frame;
    }
}
