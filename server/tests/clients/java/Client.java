import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * The official Java client, driven by the harness: see ../README.md for the commands, the plan and the events.
 * One source for the 4.9 and the 5.x line (they differ in packages, so the message model is set by reflection).
 */
public final class Client {
    private static final int BATCH = 10;
    private static final long SEND_DEADLINE_MS = 90_000;

    private final Map<String, String> options = new HashMap<>();
    private final BufferedReader stdin = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    public static void main(String[] args) throws Exception {
        Client client = new Client();
        for (int i = 1; i < args.length; i++) {
            int eq = args[i].indexOf('=');
            client.options.put(args[i].substring(0, eq), args[i].substring(eq + 1));
        }
        switch (args[0]) {
            case "send": client.send(); break;
            case "consume": client.consume(); break;
            case "pull": client.pull(); break;
            case "lite-pull": client.litePull(); break;
            default: throw new IllegalArgumentException("unknown command " + args[0]);
        }
        System.exit(0);
    }

    // --- send -------------------------------------------------------------------------------------------------

    private static final class Planned {
        int index;
        String how;
        Message message;
    }

    private List<Planned> readPlan() throws Exception {
        List<Planned> plan = new ArrayList<>();
        for (String line : Files.readAllLines(Paths.get(options.get("plan")))) {
            String[] f = line.split("\t", -1);
            Planned p = new Planned();
            p.index = Integer.parseInt(f[0]);
            p.how = f[1];
            p.message = new Message(options.get("topic"), text(f[3]), text(f[2]), Base64.getDecoder().decode(f[4]));
            for (String pair : f[5].split(",")) {
                int colon = pair.indexOf(':');
                p.message.putUserProperty(pair.substring(0, colon), text(pair.substring(colon + 1)));
            }
            plan.add(p);
        }
        return plan;
    }

    private void send() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(options.get("group"));
        producer.setNamesrvAddr(options.get("namesrv"));
        producer.setInstanceName(options.get("instance"));
        producer.start();
        event("ready");
        int pause = Integer.parseInt(options.getOrDefault("pause", "-1"));
        List<Planned> plan = readPlan();
        int at = 0;
        while (at < plan.size()) {
            if (at == pause) {
                event("paused");
                stdin.readLine();
            }
            int end = at + 1;
            while (end < plan.size() && end != pause && end - at < BATCH && plan.get(end).how.equals(plan.get(at).how)) {
                end++;
            }
            sendRun(producer, plan.subList(at, end));
            at = end;
        }
        event("done");
        stdin.readLine();
        producer.shutdown();
        event("stopped");
    }

    private void sendRun(DefaultMQProducer producer, List<Planned> run) throws Exception {
        switch (run.get(0).how) {
            case "sync":
                for (Planned p : run) {
                    sendSync(producer, p);
                }
                break;
            case "async":
                sendAsync(producer, run);
                break;
            case "oneway":
                for (Planned p : run) {
                    producer.sendOneway(p.message);
                    sent(p, null);
                }
                break;
            case "batch":
                sendBatch(producer, run);
                break;
            default:
                throw new IllegalArgumentException(run.get(0).how);
        }
    }

    private void sendSync(DefaultMQProducer producer, Planned p) throws Exception {
        long deadline = System.currentTimeMillis() + SEND_DEADLINE_MS;
        while (true) {
            try {
                sent(p, producer.send(p.message));
                return;
            } catch (Exception e) {
                retryOrThrow(deadline, e);
            }
        }
    }

    private void sendAsync(DefaultMQProducer producer, List<Planned> run) throws Exception {
        CountDownLatch answered = new CountDownLatch(run.size());
        Queue<Planned> failed = new ConcurrentLinkedQueue<>();
        for (Planned p : run) {
            AtomicBoolean once = new AtomicBoolean();
            SendCallback callback = new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    sent(p, result);
                    answered.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    if (once.compareAndSet(false, true)) {
                        error(e);
                        failed.add(p);
                        answered.countDown();
                    }
                }
            };
            try {
                producer.send(p.message, callback);
            } catch (Exception e) {
                callback.onException(e);
            }
        }
        if (!answered.await(SEND_DEADLINE_MS, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("async sends were never answered");
        }
        for (Planned p : failed) {
            sendSync(producer, p);
        }
    }

    private void sendBatch(DefaultMQProducer producer, List<Planned> run) throws Exception {
        Collection<Message> messages = new ArrayList<>();
        for (Planned p : run) {
            messages.add(p.message);
        }
        long deadline = System.currentTimeMillis() + SEND_DEADLINE_MS;
        while (true) {
            try {
                SendResult result = producer.send(messages);
                for (Planned p : run) {
                    sent(p, result);
                }
                return;
            } catch (Exception e) {
                retryOrThrow(deadline, e);
            }
        }
    }

    private static void retryOrThrow(long deadline, Exception e) throws Exception {
        error(e);
        if (System.currentTimeMillis() > deadline) {
            throw e;
        }
        Thread.sleep(300);
    }

    // --- receive ----------------------------------------------------------------------------------------------

    private void consume() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(options.get("group"));
        consumer.setNamesrvAddr(options.get("namesrv"));
        consumer.setInstanceName(options.get("instance"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (options.get("model").equals("broadcast")) {
            broadcasting(consumer);
        }
        consumer.subscribe(options.get("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) {
                received(m, context.getMessageQueue());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        event("ready");
        stdin.readLine();
        consumer.shutdown();
        event("stopped");
    }

    /** MessageModel lives in another package in 5.x; its constants are the same. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void broadcasting(DefaultMQPushConsumer consumer) throws Exception {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                method.invoke(consumer, Enum.valueOf((Class) method.getParameterTypes()[0], "BROADCASTING"));
                return;
            }
        }
        throw new NoSuchMethodException("setMessageModel");
    }

    private void pull() throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(options.get("group"));
        consumer.setNamesrvAddr(options.get("namesrv"));
        consumer.setInstanceName(options.get("instance"));
        consumer.start();
        event("ready");
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(options.get("topic"))) {
            long offset = consumer.minOffset(queue);
            long end = consumer.maxOffset(queue);
            while (offset < end) {
                PullResult result = consumer.pull(queue, "*", offset, 32);
                switch (result.getPullStatus()) {
                    case FOUND:
                        for (MessageExt m : result.getMsgFoundList()) {
                            received(m, queue);
                        }
                        break;
                    case NO_MATCHED_MSG:
                        break;
                    default:
                        throw new IllegalStateException(queue + " at " + offset + ": " + result);
                }
                offset = result.getNextBeginOffset();
            }
            consumer.updateConsumeOffset(queue, offset);
        }
        event("done");
        stdin.readLine();
        consumer.shutdown();
        event("stopped");
    }

    private void litePull() throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(options.get("group"));
        consumer.setNamesrvAddr(options.get("namesrv"));
        consumer.setInstanceName(options.get("instance"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(options.get("topic"), "*");
        consumer.start();
        event("ready");
        int wanted = Integer.parseInt(options.get("expect"));
        long deadline = System.currentTimeMillis() + 1000L * Integer.parseInt(options.get("seconds"));
        int seen = 0;
        while (seen < wanted && System.currentTimeMillis() < deadline) {
            for (MessageExt m : consumer.poll(500)) {
                received(m, new MessageQueue(m.getTopic(), m.getBrokerName(), m.getQueueId()));
                seen++;
            }
        }
        consumer.commitSync();
        event("done");
        stdin.readLine();
        consumer.shutdown();
        event("stopped");
    }

    // --- events -----------------------------------------------------------------------------------------------

    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }

    private static String quote(String value) {
        return value == null ? "null" : quoteBytes(value.getBytes(StandardCharsets.UTF_8));
    }

    private static String quoteBytes(byte[] value) {
        return '"' + Base64.getEncoder().encodeToString(value) + '"';
    }

    private static void event(String name) {
        line("{\"ev\":\"" + name + "\"}");
    }

    private static void error(Throwable e) {
        line("{\"ev\":\"error\",\"text\":" + quote(String.valueOf(e)) + "}");
    }

    private static void sent(Planned p, SendResult result) {
        String where = result == null ? "" : ",\"status\":\"" + result.getSendStatus() + "\",\"broker\":\""
            + result.getMessageQueue().getBrokerName() + "\",\"queue\":" + result.getMessageQueue().getQueueId();
        line("{\"ev\":\"sent\",\"i\":" + p.index + where + "}");
    }

    private static void received(MessageExt m, MessageQueue queue) {
        StringBuilder out = new StringBuilder(256 + 2 * m.getBody().length);
        out.append("{\"ev\":\"recv\",\"broker\":\"").append(queue.getBrokerName());
        out.append("\",\"queue\":").append(m.getQueueId()).append(",\"offset\":").append(m.getQueueOffset());
        out.append(",\"key\":").append(quote(m.getKeys())).append(",\"tag\":").append(quote(m.getTags()));
        out.append(",\"body\":").append(quoteBytes(m.getBody())).append(",\"props\":{");
        String comma = "";
        for (Map.Entry<String, String> e : m.getProperties().entrySet()) {
            out.append(comma).append('"').append(e.getKey()).append("\":").append(quote(e.getValue()));
            comma = ",";
        }
        line(out.append("}}").toString());
    }

    private static void line(String json) {
        synchronized (System.out) {
            System.out.println(json);
            System.out.flush();
        }
    }
}
