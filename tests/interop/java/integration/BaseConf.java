package org.apache.rocketmq.test.base;

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.test.client.rmq.RMQAsyncSendProducer;
import org.apache.rocketmq.test.client.rmq.RMQNormalConsumer;
import org.apache.rocketmq.test.client.rmq.RMQNormalProducer;
import org.apache.rocketmq.test.client.rmq.RMQTransactionalProducer;
import org.apache.rocketmq.test.clientinterface.AbstractMQConsumer;
import org.apache.rocketmq.test.clientinterface.AbstractMQProducer;
import org.apache.rocketmq.test.factory.ConsumerFactory;
import org.apache.rocketmq.test.listener.AbstractListener;
import org.apache.rocketmq.test.util.MQAdmin;
import org.apache.rocketmq.test.util.MQRandomUtils;

/**
 * Stands where the tests look for their servers: it names two brokers that run already, where Apache's starts its own.
 */
public class BaseConf {
    public static String nsAddr = System.getProperty("name.server");
    protected static String broker1Name = System.getProperty("broker.1");
    protected static String broker2Name = System.getProperty("broker.2");
    protected static String clusterName = System.getProperty("cluster");
    protected static int brokerNum = 2;
    protected static int waitTime = 5;
    protected static int consumeTime = 120_000;
    protected static NamesrvController namesrvController;
    protected static BrokerController brokerController1;
    protected static BrokerController brokerController2;
    protected static List<Object> mqClients = new ArrayList<>();
    protected static boolean debug;

    static {
        System.setProperty("rocketmq.remoting.version", Integer.toString(MQVersion.CURRENT_VERSION));
    }

    private static <T> T kept(T client) {
        mqClients.add(client);
        return client;
    }

    public static String initTopic() {
        return initTopicWithName(MQRandomUtils.getRandomTopic());
    }

    public static String initTopicWithName(String topic) {
        IntegrationTestBase.initTopic(topic, nsAddr, clusterName);
        return topic;
    }

    public static String initConsumerGroup() {
        return initConsumerGroup(MQRandomUtils.getRandomConsumerGroup());
    }

    public static String initConsumerGroup(String group) {
        MQAdmin.createSub(nsAddr, clusterName, group);
        return group;
    }

    public static RMQNormalProducer getProducer(String nsAddr, String topic) {
        return getProducer(nsAddr, topic, false);
    }

    public static RMQNormalProducer getProducer(String nsAddr, String topic, boolean useTls) {
        return kept(new RMQNormalProducer(nsAddr, topic, useTls));
    }

    public static RMQNormalProducer getProducer(String nsAddr, String topic, String group, String instance) {
        return kept(new RMQNormalProducer(nsAddr, topic, group, instance));
    }

    public static RMQTransactionalProducer getTransactionalProducer(
            String nsAddr, String topic, TransactionListener listener) {
        return kept(new RMQTransactionalProducer(nsAddr, topic, false, listener));
    }

    public static RMQAsyncSendProducer getAsyncProducer(String nsAddr, String topic) {
        return kept(new RMQAsyncSendProducer(nsAddr, topic));
    }

    public static RMQNormalConsumer getConsumer(String nsAddr, String topic, String tags, AbstractListener listener) {
        return getConsumer(nsAddr, topic, tags, listener, false);
    }

    public static RMQNormalConsumer getConsumer(
            String nsAddr, String topic, String tags, AbstractListener listener, boolean useTls) {
        return getConsumer(nsAddr, initConsumerGroup(), topic, tags, listener, useTls);
    }

    public static RMQNormalConsumer getConsumer(
            String nsAddr, String group, String topic, String tags, AbstractListener listener) {
        return getConsumer(nsAddr, group, topic, tags, listener, false);
    }

    public static RMQNormalConsumer getConsumer(
            String nsAddr, String group, String topic, String tags, AbstractListener listener, boolean useTls) {
        return kept(ConsumerFactory.getRMQNormalConsumer(nsAddr, group, topic, tags, listener, useTls));
    }

    public static void shutdown() {
        for (Object client : mqClients) {
            if (client instanceof AbstractMQProducer producer) {
                producer.shutdown();
            } else {
                ((AbstractMQConsumer) client).shutdown();
            }
        }
        mqClients.clear();
    }
}
