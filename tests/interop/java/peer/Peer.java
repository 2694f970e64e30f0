package peer;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What Apache's own classes make of our bytes: one question a line in, one line of JSON out.
 *
 * A question is a command and its words, see {@link Words}. The answer is {"answer": …}, or {"refused": "…"} with what
 * was thrown. The same source is compiled against both releases, so it names only what both have; the rest is found by
 * its simple name, see {@link Classes}.
 */
public final class Peer {
    private interface Command {
        Object answer(Words words) throws Throwable;
    }

    private static final Map<String, Command> COMMANDS = new HashMap<>();

    static {
        COMMANDS.put("read-frame", Frames::read);
        COMMANDS.put("write-frame", Frames::write);
        COMMANDS.put("describe-header", Headers::describe);
        COMMANDS.put("read-header", Headers::read);
        COMMANDS.put("read-records", Records::read);
        COMMANDS.put("write-record", Records::write);
        COMMANDS.put("unwrap-record", Records::unwrap);
        COMMANDS.put("read-batch", Batches::read);
        COMMANDS.put("write-batch", Batches::write);
        COMMANDS.put("read-properties", Batches::readProperties);
        COMMANDS.put("write-properties", Batches::writeProperties);
        COMMANDS.put("compress", Records::compress);
        COMMANDS.put("decompress", Records::decompress);
        COMMANDS.put("write-offset-id", Ids::writeOffsetId);
        COMMANDS.put("read-offset-id", Ids::readOffsetId);
        COMMANDS.put("write-unique-key", Ids::writeUniqueKey);
        COMMANDS.put("read-unique-key", Ids::readUniqueKey);
        COMMANDS.put("has-class", words -> Classes.has(words.text()));
        COMMANDS.put("rewrite-body", Bodies::rewrite);
        COMMANDS.put("compress-registration", Bodies::compressRegistration);
        COMMANDS.put("open-registration", Bodies::openRegistration);
        COMMANDS.put("subscription", Bodies::subscription);
    }

    private Peer() {
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "US-ASCII");
        // Whatever a library prints must not get between the answers.
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII), 1 << 16);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(Json.text(answered(line)));
            out.flush();
        }
        System.exit(0);
    }

    private static Map<String, Object> answered(String line) {
        Words words = new Words(line);
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            answer.put("answer", COMMANDS.get(words.command()).answer(words));
        } catch (InvocationTargetException thrown) {
            answer.put("refused", String.valueOf(thrown.getCause()));
        } catch (Throwable thrown) {
            answer.put("refused", String.valueOf(thrown));
        }
        return answer;
    }
}
