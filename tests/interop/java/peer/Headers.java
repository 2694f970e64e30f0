package peer;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.annotation.CFNotNull;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** Custom headers by the name of their class: their fields as texts, null where there is nothing. */
final class Headers {
    private Headers() {
    }

    /** Tell what a new header of a class holds, and which fields are never absent. */
    static Object describe(Words words) throws ReflectiveOperationException {
        Class<? extends CommandCustomHeader> kind = named(words.text());
        List<String> required = new ArrayList<>();
        for (Field field : fields(kind)) {
            if (field.getType().isPrimitive() || field.isAnnotationPresent(CFNotNull.class)) {
                required.add(field.getName());
            }
        }
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("new", texts(kind.getDeclaredConstructor().newInstance()));
        found.put("required", required);
        return found;
    }

    /** Read a frame's fields as a header of a class, as Apache's processors do. */
    static Object read(Words words) throws Exception {
        Class<? extends CommandCustomHeader> kind = named(words.text());
        RemotingCommand command = Frames.decode(words.bytes());
        return texts(command.decodeCommandCustomHeader(kind));
    }

    static CommandCustomHeader filled(String name, Map<String, String> texts) throws ReflectiveOperationException {
        CommandCustomHeader header = named(name).getDeclaredConstructor().newInstance();
        for (Field field : fields(header.getClass())) {
            if (texts.get(field.getName()) != null) {
                field.set(header, parsed(field.getType(), texts.get(field.getName())));
            }
        }
        return header;
    }

    private static Class<? extends CommandCustomHeader> named(String name) throws ClassNotFoundException {
        return Classes.named(name).asSubclass(CommandCustomHeader.class);
    }

    private static Map<String, String> texts(CommandCustomHeader header) throws IllegalAccessException {
        Map<String, String> texts = new LinkedHashMap<>();
        for (Field field : fields(header.getClass())) {
            Object value = field.get(header);
            texts.put(field.getName(), value == null ? null : value.toString());
        }
        return texts;
    }

    private static List<Field> fields(Class<?> kind) {
        List<Field> fields = new ArrayList<>();
        for (Class<?> each = kind; each != Object.class; each = each.getSuperclass()) {
            for (Field field : each.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    field.setAccessible(true);
                    fields.add(field);
                }
            }
        }
        return fields;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Object parsed(Class<?> type, String text) {
        if (type == int.class || type == Integer.class) {
            return Integer.valueOf(text);
        }
        if (type == long.class || type == Long.class) {
            return Long.valueOf(text);
        }
        if (type == boolean.class || type == Boolean.class) {
            return Boolean.valueOf(text);
        }
        return type.isEnum() ? Enum.valueOf((Class<Enum>) type, text) : text;
    }
}
