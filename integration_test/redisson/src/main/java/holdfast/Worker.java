package holdfast;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Does with Redisson what a test tells it, a line of JSON for each command. A command names the thread that is to carry it out, so
 * that many wait at once; a thread does one after the other. Each is answered by a line with its number, its value, and the id of
 * the thread, which with that of the client is the owner in Redis; or with the class and the message of what was thrown.
 */
public final class Worker {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Clients clients = new Clients();
    private final Map<String, Thread> threads = new ConcurrentHashMap<>();
    private final Map<String, Desk> desks = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        Worker worker = new Worker();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            worker.take(JSON.readValue(line, Ask.class));
        }
        Runtime.getRuntime().halt(0); // threads may be waiting for locks
    }

    /** Hands a command to its thread. An interrupt is for what the thread is doing, and whether it sleeps is
     * asked of that, so they do not queue behind it. */
    private void take(Ask ask) {
        if (ask.op.equals("interrupt")) {
            threads.get(ask.thread).interrupt();
            answer(ask, true, null);
            return;
        }
        if (ask.op.equals("sleeps")) {
            answer(ask, sleeps(threads.get(ask.thread)), null);
            return;
        }
        desks.computeIfAbsent(ask.thread, this::hire).put(ask);
    }

    /** Whether a thread waits for a message, and not for an answer: only for that do Redisson's locks use a semaphore of the JDK. */
    private static boolean sleeps(Thread thread) {
        return Arrays.stream(thread.getStackTrace()).anyMatch(f -> f.getClassName().equals("java.util.concurrent.Semaphore"));
    }

    private Desk hire(String name) {
        Desk desk = new Desk(ask -> {
            try {
                answer(ask, clients.act(ask), null);
            } catch (Throwable e) {
                answer(ask, null, e);
            }
        });
        Thread thread = new Thread(desk, name);
        thread.setDaemon(true);
        threads.put(name, thread);
        thread.start();
        return desk;
    }

    /** What was thrown, and why. */
    private static String because(Throwable thrown) {
        String text = String.valueOf(thrown.getMessage());
        for (Throwable cause = thrown.getCause(); cause != null && !text.contains(cause.toString()); cause = cause.getCause()) {
            text += "; because of " + cause;
        }
        return text;
    }

    private static void answer(Ask ask, Object value, Throwable thrown) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("id", ask.id);
        line.put("thread", Thread.currentThread().getId());
        if (thrown == null) {
            line.put("value", value);
        } else {
            line.put("class", thrown.getClass().getName());
            line.put("message", because(thrown));
        }
        try {
            byte[] text = (JSON.writeValueAsString(line) + "\n").getBytes("UTF-8");
            synchronized (System.out) {
                System.out.write(text);
                System.out.flush();
            }
        } catch (Exception e) {
            Runtime.getRuntime().halt(1); // nobody listens
        }
    }
}
