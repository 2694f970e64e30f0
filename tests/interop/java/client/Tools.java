package client;

import com.alibaba.fastjson.JSONObject;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** The administrator's tool, run in this process again and again: a new one a command would start for seconds. */
final class Tools {
    private Tools() {
    }

    static void add(Map<String, Client.Verb> verbs) {
        verbs.put("mqadmin", Tools::run);
    }

    private static Object run(JSONObject words) throws ReflectiveOperationException {
        String[] arguments = words.getJSONArray("arguments").toArray(new String[0]);
        PrintStream outBefore = System.out;
        PrintStream errBefore = System.err;
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        forgetCommands();
        try {
            MQAdminStartup.main0(arguments, null);
        } finally {
            System.out.flush();
            System.err.flush();
            System.setOut(outBefore);
            System.setErr(errBefore);
        }
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("out", out.toString(StandardCharsets.UTF_8));
        told.put("err", err.toString(StandardCharsets.UTF_8));
        return told;
    }

    /** Some commands keep a client that they have shut down: each run gets new ones, as in a process of its own. */
    private static void forgetCommands() throws ReflectiveOperationException {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            // The releases name it differently; there is but one list.
            if (field.getType() == List.class) {
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }
}
