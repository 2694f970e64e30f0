package client;

import com.alibaba.fastjson.JSONObject;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Producers by name, and every way of sending. */
final class Producers {
    /** How a transaction's message wants to end: at once, and when it is asked for again. */
    private static final String AT_ONCE = "at_once";
    private static final String WHEN_ASKED = "when_asked";

    private static final Map<String, DefaultMQProducer> PRODUCERS = new ConcurrentHashMap<>();

    private Producers() {
    }

    static void add(Map<String, Client.Verb> verbs) {
        verbs.put("producer", Producers::start);
        verbs.put("producer-stop", words -> Client.stop(words, PRODUCERS.remove(words.getString("name"))::shutdown));
        verbs.put("send", words -> told(of(words).send(message(words))));
        verbs.put("send-queue", words ->
            told(of(words).send(message(words), Messages.queue(words.getJSONArray("queue")))));
        verbs.put("send-select", words -> told(of(words).send(
            message(words), (queues, message, argument) -> queues.get((int) argument % queues.size()),
            words.getIntValue("argument"))));
        verbs.put("send-async", Producers::sendAsync);
        verbs.put("send-oneway", words -> {
            of(words).sendOneway(message(words));
            return null;
        });
        verbs.put("send-batch", words -> told(of(words).send(Messages.readAll(words.getJSONArray("messages")))));
        verbs.put("send-transaction", Producers::sendTransaction);
        verbs.put("request", words ->
            Messages.told((MessageExt) of(words).request(message(words), words.getLongValue("timeout_ms"))));
        verbs.put("publish-queues", words ->
            Messages.told(of(words).fetchPublishMessageQueues(words.getString("topic"))));
    }

    static DefaultMQProducer named(String name) {
        return PRODUCERS.get(name);
    }

    private static Object start(JSONObject words) throws Exception {
        String name = words.getString("name");
        String group = words.getString("group");
        DefaultMQProducer producer;
        if (words.getBooleanValue("transactions")) {
            TransactionMQProducer transactional = new TransactionMQProducer(group);
            transactional.setTransactionListener(new Decider(name));
            producer = transactional;
        } else {
            producer = new DefaultMQProducer(group, words.getBooleanValue("trace"), null);
        }
        producer.setNamesrvAddr(words.getString("name_server"));
        Settings.apply(producer, words.getJSONObject("settings"));
        producer.start();
        PRODUCERS.put(name, producer);
        return producer.buildMQClientId();
    }

    private static DefaultMQProducer of(JSONObject words) {
        return PRODUCERS.get(words.getString("name"));
    }

    private static Message message(JSONObject words) {
        return Messages.read(words.getJSONObject("message"));
    }

    private static Object told(SendResult result) {
        return Messages.told(result);
    }

    private static Object sendAsync(JSONObject words) throws Exception {
        String name = words.getString("name");
        of(words).send(message(words), new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                Client.event("sent", name, Messages.told(result));
            }

            @Override
            public void onException(Throwable thrown) {
                Client.event("not-sent", name, Map.of("thrown", String.valueOf(thrown)));
            }
        });
        return null;
    }

    private static Object sendTransaction(JSONObject words) throws Exception {
        TransactionSendResult result = of(words).sendMessageInTransaction(message(words), null);
        Map<String, Object> told = Messages.told(result);
        told.put("state", result.getLocalTransactionState().name());
        told.put("transaction", result.getTransactionId());
        return told;
    }

    /** Ends transactions as their messages say, and tells when it is asked. */
    private static final class Decider implements TransactionListener {
        private final String name;

        Decider(String name) {
            this.name = name;
        }

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return LocalTransactionState.valueOf(message.getProperty(AT_ONCE));
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            Map<String, Object> facts = new LinkedHashMap<>();
            facts.put("message", Messages.told(message));
            Client.event("asked", name, facts);
            return LocalTransactionState.valueOf(message.getProperty(WHEN_ASKED));
        }
    }
}
