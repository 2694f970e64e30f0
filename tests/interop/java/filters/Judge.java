import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.rocketmq.filter.expression.BooleanExpression;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.parser.SelectorParser;

/**
 * What Apache's parser makes of SQL92 conditions, and which messages match them.
 *
 * A line in is a condition and any number of messages, with blanks between; a message is name=value with commas between.
 * All texts are hexadecimal digits, after an x. A line out is "refused", or a 1 or a 0 for each message. It is one file so
 * that java runs it without being told how to compile it.
 */
public final class Judge {
    private Judge() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII), 1 << 16);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(judged(line.split(" ")));
            out.flush();
        }
    }

    private static String judged(String[] words) {
        BooleanExpression condition;
        try {
            condition = SelectorParser.parse(text(words[0]));
        } catch (Exception thrown) {
            return "refused";
        }
        StringBuilder judged = new StringBuilder();
        for (int i = 1; i < words.length; i++) {
            judged.append(matches(condition, words[i]) ? '1' : '0');
        }
        return judged.toString();
    }

    /** Say what a broker would: a message whose judging throws is not delivered. */
    private static boolean matches(BooleanExpression condition, String message) {
        Map<String, Object> properties = new HashMap<>();
        for (String pair : message.split(",")) {
            int equals = pair.indexOf('=');
            if (equals > 0) {
                properties.put(text(pair.substring(0, equals)), text(pair.substring(equals + 1)));
            }
        }
        try {
            return Boolean.TRUE.equals(condition.evaluate(new Properties(properties)));
        } catch (Exception thrown) {
            return false;
        }
    }

    private static String text(String word) {
        return new String(HexFormat.of().parseHex(word.substring(1)), StandardCharsets.UTF_8);
    }

    private record Properties(Map<String, Object> keyValues) implements EvaluationContext {
        @Override
        public Object get(String name) {
            return keyValues.get(name);
        }
    }
}
