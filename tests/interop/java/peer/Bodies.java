package peer;

import java.lang.reflect.Array;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/** JSON bodies by the name of their class, and the compressed form of a broker's registration. */
final class Bodies {
    private Bodies() {
    }

    /** Read a body and write what was read; further words are features of the writer. */
    static Object rewrite(Words words) throws ReflectiveOperationException {
        Object body = RemotingSerializable.decode(words.bytes(), Classes.named(words.text()));
        List<String> features = new ArrayList<>();
        while (words.more()) {
            features.add(words.text());
        }
        return Words.hex(features.isEmpty() ? RemotingSerializable.encode(body) : encoded(body, features));
    }

    static Object compressRegistration(Words words) throws ReflectiveOperationException {
        Class<?> kind = Classes.named("RegisterBrokerBody");
        Object body = RemotingSerializable.decode(words.bytes(), kind);
        return Words.hex((byte[]) kind.getMethod("encode", boolean.class).invoke(body, true));
    }

    /** Read a compressed registration, sent by a broker of some version, and write it as JSON. */
    static Object openRegistration(Words words) throws ReflectiveOperationException {
        byte[] compressed = words.bytes();
        int version = words.number();
        for (Method method : Classes.named("RegisterBrokerBody").getMethods()) {
            if (method.getName().equals("decode") && method.getParameterTypes()[1] == boolean.class) {
                // Only 5.x looks at the version.
                Object opened = method.getParameterCount() == 2
                    ? method.invoke(null, compressed, true)
                    : method.invoke(null, compressed, true, MQVersion.value2Version(version));
                return Words.hex(RemotingSerializable.encode(opened));
            }
        }
        throw new NoSuchMethodException("RegisterBrokerBody.decode");
    }

    /** Make a subscription of a tag expression. */
    static Object subscription(Words words) throws ReflectiveOperationException {
        Method build = Classes.named("FilterAPI").getMethod("buildSubscriptionData", String.class, String.class);
        return new String(RemotingSerializable.encode(build.invoke(null, words.text(), words.text())),
            StandardCharsets.UTF_8);
    }

    /** The features are enums of the JSON library, which is another one in each release. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static byte[] encoded(Object body, List<String> names) throws ReflectiveOperationException {
        for (Method method : RemotingSerializable.class.getMethods()) {
            if (method.getName().equals("encode") && method.isVarArgs()) {
                Class<Enum> kind = (Class<Enum>) method.getParameterTypes()[0].getComponentType();
                Object features = Array.newInstance(kind, names.size());
                for (int i = 0; i < names.size(); i++) {
                    Array.set(features, i, Enum.valueOf(kind, names.get(i)));
                }
                return (byte[]) method.invoke(body, features);
            }
        }
        throw new NoSuchMethodException("encode with features");
    }
}
