package client;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;

/**
 * Apache's client as a user runs it, told what to do: one JSON object a line in, one a line out.
 *
 * A line in has a "verb" and its words. It is answered by {"answer": …}, or by {"refused": "…", "code": …} with what was
 * thrown; between answers, what happens by itself is told as {"event": …, "of": name, …}. Producers and consumers have
 * names, by which later lines speak of them. The same source is compiled against both releases and names only what both
 * have.
 */
public final class Client {
    /** One thing that can be asked. */
    interface Verb {
        Object answer(JSONObject words) throws Exception;
    }

    private static final Map<String, Verb> VERBS = new HashMap<>();
    private static final PrintStream OUT =
        new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.US_ASCII);

    static {
        Producers.add(VERBS);
        PushConsumers.add(VERBS);
        PullConsumers.add(VERBS);
        LiteConsumers.add(VERBS);
        Queries.add(VERBS);
        Tools.add(VERBS);
        VERBS.put("ready", words -> null);
    }

    private Client() {
    }

    public static void main(String[] arguments) throws IOException {
        // Whatever a library prints must not get between the answers.
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 16);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            tell(answered(JSON.parseObject(line)));
        }
        // Nobody is left to talk to: go without saying good-bye, which would wait for servers that may be gone.
        Runtime.getRuntime().halt(0);
    }

    /** Tell of something that was not asked for. */
    static void event(String event, String of, Map<String, Object> facts) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("event", event);
        told.put("of", of);
        told.putAll(facts);
        tell(told);
    }

    /** Stop one of ours, if "later" without waiting: a shutdown of 5.x takes up to three seconds. */
    static Object stop(JSONObject words, Runnable shutdown) {
        if (words.getBooleanValue("later")) {
            new Thread(shutdown).start();
        } else {
            shutdown.run();
        }
        return null;
    }

    private static Map<String, Object> answered(JSONObject words) {
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            answer.put("answer", VERBS.get(words.getString("verb")).answer(words));
        } catch (Throwable thrown) {
            answer.put("refused", thrown.getClass().getSimpleName() + ": " + thrown.getMessage());
            answer.put("code", code(thrown));
        }
        return answer;
    }

    private static int code(Throwable thrown) {
        if (thrown instanceof MQBrokerException) {
            return ((MQBrokerException) thrown).getResponseCode();
        }
        if (thrown instanceof MQClientException && ((MQClientException) thrown).getResponseCode() > 0) {
            return ((MQClientException) thrown).getResponseCode();
        }
        return thrown.getCause() == null ? -1 : code(thrown.getCause());
    }

    private static void tell(Map<String, Object> what) {
        String line = JSON.toJSONString(
            what, SerializerFeature.BrowserCompatible, SerializerFeature.WriteMapNullValue,
            SerializerFeature.DisableCircularReferenceDetect);
        synchronized (OUT) {
            OUT.println(line);
            OUT.flush();
        }
    }
}
