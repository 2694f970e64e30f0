package peer;

import java.util.List;
import java.util.Map;

/** Writes maps, lists, texts, numbers and truths as JSON in ASCII: Apache's JSON libraries are what is being looked at. */
final class Json {
    private Json() {
    }

    static String text(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map) {
            String before = "{";
            out.append(((Map<?, ?>) value).isEmpty() ? "{" : "");
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                out.append(before);
                quote(String.valueOf(entry.getKey()), out);
                out.append(':');
                write(entry.getValue(), out);
                before = ",";
            }
            out.append('}');
        } else if (value instanceof List) {
            String before = "[";
            out.append(((List<?>) value).isEmpty() ? "[" : "");
            for (Object each : (List<?>) value) {
                out.append(before);
                write(each, out);
                before = ",";
            }
            out.append(']');
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else {
            quote(value.toString(), out);
        }
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (char unit : text.toCharArray()) {
            if (unit < 0x20 || unit > 0x7e || unit == '"' || unit == '\\') {
                out.append(String.format("\\u%04x", (int) unit));
            } else {
                out.append(unit);
            }
        }
        out.append('"');
    }
}
