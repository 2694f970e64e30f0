package peer;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** The words of a question, taken one after the other: "-" is null, anything else is "x" and hexadecimal digits. */
final class Words {
    private final String[] words;
    private int at = 1;

    Words(String line) {
        words = line.split(" ");
    }

    String command() {
        return words[0];
    }

    boolean more() {
        return at < words.length;
    }

    byte[] bytes() {
        String word = words[at++];
        return word.equals("-") ? null : fromHex(word.substring(1));
    }

    String text() {
        byte[] bytes = bytes();
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    int number() {
        return Integer.parseInt(text());
    }

    long big() {
        return Long.parseLong(text());
    }

    boolean truth() {
        return Boolean.parseBoolean(text());
    }

    /** Take a count, and as many names with their values. */
    Map<String, String> pairs() {
        Map<String, String> pairs = new LinkedHashMap<>();
        for (int left = number(); left > 0; left--) {
            String name = text();
            pairs.put(name, text());
        }
        return pairs;
    }

    static byte[] fromHex(String digits) {
        byte[] bytes = new byte[digits.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            int high = Character.digit(digits.charAt(2 * i), 16);
            bytes[i] = (byte) (high << 4 | Character.digit(digits.charAt(2 * i + 1), 16));
        }
        return bytes;
    }

    static String hex(byte[] bytes) {
        if (bytes == null) {
            return null;
        }
        StringBuilder digits = new StringBuilder(2 * bytes.length);
        for (byte each : bytes) {
            digits.append(Character.forDigit(each >> 4 & 15, 16)).append(Character.forDigit(each & 15, 16));
        }
        return digits.toString();
    }
}
