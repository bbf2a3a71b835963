package holdfast;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * A worker of the benchmark for Redisson's locks; protocol.go has the protocol. A goroutine is a thread here.
 * System.nanoTime is CLOCK_MONOTONIC on Linux, the clock of the other workers.
 */
public final class Worker {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int TOO_MANY_ERRORS = 100;

    private final Job job;
    private final Page page;
    private final BufferedReader in;
    private final List<RedissonClient> clients = new ArrayList<>();

    private Worker(Job job, BufferedReader in) throws Exception {
        this.job = job;
        this.in = in;
        this.page = new Page(job.page);
        for (int i = 0; i < job.clients; i++) {
            Config config = new Config();
            config.useSingleServer().setAddress("redis://" + job.addr);
            if (job.lease > 0) {
                config.setLockWatchdogTimeout(TimeUnit.NANOSECONDS.toMillis(job.lease));
            }
            clients.add(Redisson.create(config));
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        try {
            Worker worker = new Worker(JSON.readValue(in.readLine(), Job.class), in);
            Map<String, Object> result = worker.work();
            say(Map.of("event", "result", "result", result));
        } catch (Throwable e) {
            say(Map.of("event", "error", "error", String.valueOf(e)));
        }
        Runtime.getRuntime().halt(0); // threads of Redisson may be waiting for a lock
    }

    private static void say(Map<String, Object> message) throws Exception {
        System.out.println(JSON.writeValueAsString(message));
        System.out.flush();
    }

    private Map<String, Object> work() throws Exception {
        switch (job.task) {
            case "pairs":
                return pairs();
            case "hold":
                return hold();
            case "await":
                return await();
            case "gather":
                return Latches.gather(job, page, clients.get(0), this::begin, Worker::progress);
            case "count":
                return Latches.count(job, page, clients.get(0), this::begin, Worker::progress);
            default:
                throw new IllegalArgumentException("no such task: " + job.task);
        }
    }

    private static void progress() throws Exception {
        say(Map.of("event", "progress"));
    }

    /** Says ready and waits for the start. */
    private Job.Window begin() throws Exception {
        say(Map.of("event", "ready"));
        String line = in.readLine();
        if (line == null) {
            throw new IllegalStateException("the coordinator has gone");
        }
        return JSON.readValue(line, Job.Window.class);
    }

    /** Says ready and waits for the only start. From then on this process ends with its stdin. */
    private Job.Window beginOnce() throws Exception {
        Job.Window window = begin();
        Thread watch = new Thread(() -> {
            try {
                while (in.readLine() != null) {
                }
            } catch (Exception e) {
                // the end as well
            }
            Runtime.getRuntime().halt(1);
        });
        watch.setDaemon(true);
        watch.start();
        return window;
    }

    private Lockable lock(int i) {
        return Lockable.of(clients.get(i % clients.size()), job, i);
    }

    private Map<String, Object> pairs() throws Exception {
        List<Lockable> locks = new ArrayList<>();
        for (int i = 0; i < job.goroutines; i++) {
            locks.add(lock(i));
        }
        for (RedissonClient client : clients) {
            client.getKeys().count(); // connected
        }
        Job.Window window = beginOnce();
        List<Tally> tallies = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < job.goroutines; i++) {
            int n = i;
            Tally tally = new Tally();
            tally.aside = job.writers > 0 && job.reads(i);
            tallies.add(tally);
            Thread thread = new Thread(() -> run(locks.get(n), n, window, tally));
            thread.setDaemon(true);
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return Tally.merge(tallies);
    }

    private void run(Lockable lock, int thread, Job.Window window, Tally tally) {
        long me = Page.participant(job.process, thread);
        int slot = job.each ? thread : 0, most = job.most(thread);
        while (System.nanoTime() < window.to && tally.errors < TOO_MANY_ERRORS) {
            try {
                long began = System.nanoTime();
                // tryLock with the rest of the time: lock() would wait beyond the end. It waits in the same way.
                boolean locked = lock.tryLock(window.to - began);
                long granted = System.nanoTime();
                if (!locked) {
                    tally.longest = Math.max(tally.longest, granted - began);
                    continue;
                }
                if (most > 0) {
                    share(lock, thread, window, tally, began, granted);
                    continue;
                }
                page.enter(slot, me);
                long releaser = page.releaser(slot), released = page.released(slot);
                if (job.section > 0) {
                    LockSupport.parkNanos(job.section);
                }
                page.leave(slot, me);
                tally.grant(window, me, began, granted, releaser, released);
                lock.unlock();
                if (job.pause > 0) {
                    LockSupport.parkNanos(job.pause);
                }
            } catch (Exception e) {
                tally.fail(e);
            }
        }
    }

    /** The holder of one of several permits, or a reader, from its grant on. */
    private void share(Lockable lock, int thread, Job.Window window, Tally tally, long began, long granted) throws Exception {
        page.share(0, job.most(thread));
        if (job.section > 0) {
            LockSupport.parkNanos(job.section);
        }
        page.unshare(0);
        lock.unlock();
        if (tally.aside) {
            tally.read(window, granted, System.nanoTime());
            return;
        }
        tally.grant(window, Page.participant(job.process, thread), began, granted, 0, 0);
    }

    private Map<String, Object> hold() throws Exception {
        Lockable lock = lock(0);
        beginOnce();
        lock.lock();
        page.enter(0, Page.participant(job.process, 0));
        progress();
        Thread.sleep(Long.MAX_VALUE);
        return null;
    }

    private Map<String, Object> await() throws Exception {
        Lockable lock = lock(0);
        Job.Window window = beginOnce();
        progress();
        boolean locked = lock.tryLock(window.to - System.nanoTime());
        long at = System.nanoTime();
        if (!locked) {
            throw new IllegalStateException("not acquired in time");
        }
        long me = Page.participant(job.process, 0);
        page.enter(0, me);
        page.leave(0, me);
        lock.unlock();
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("at", at);
        result.put("entries", 1);
        return result;
    }
}
