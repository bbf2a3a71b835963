package holdfast;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RedissonClient;

/** The two sides of a latch; latch_worker.go says what they do. */
final class Latches {
    private static final int SLOTS = 64, COUNT = 3;

    private Latches() {}

    /** What says something to the coordinator. */
    interface Say {
        void say() throws Exception;
    }

    static Map<String, Object> count(Job job, Page page, RedissonClient client, Callable<Job.Window> begin, Say progress)
            throws Exception {
        for (int lap = 0; lap < job.laps; lap++) {
            RCountDownLatch latch = client.getCountDownLatch(job.name + ":" + lap);
            page.release(lap % SLOTS, 0);
            begin.call();
            if (!latch.trySetCount(COUNT)) {
                throw new IllegalStateException("the latch was set already");
            }
            for (int i = 1; i < COUNT; i++) {
                latch.countDown();
            }
            begin.call();
            page.release(lap % SLOTS, System.nanoTime());
            latch.countDown();
            progress.say();
        }
        return Tally.merge(List.of());
    }

    static Map<String, Object> gather(Job job, Page page, RedissonClient client, Callable<Job.Window> begin, Say progress)
            throws Exception {
        List<Tally> counted = new ArrayList<>();
        for (int lap = 0; lap < job.laps; lap++) {
            List<Tally> tallies = gatherOnce(job, page, client, lap, begin.call(), progress);
            if (lap >= job.warmLaps) {
                counted.addAll(tallies);
            }
        }
        return Tally.merge(counted);
    }

    private static List<Tally> gatherOnce(Job job, Page page, RedissonClient client, int lap, Job.Window window, Say progress)
            throws Exception {
        RCountDownLatch latch = client.getCountDownLatch(job.name + ":" + lap);
        CountDownLatch started = new CountDownLatch(job.goroutines);
        List<Tally> tallies = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < job.goroutines; i++) {
            Tally tally = new Tally();
            tallies.add(tally);
            Thread thread = new Thread(() -> {
                try {
                    started.countDown();
                    boolean open = latch.await(window.to - System.nanoTime(), TimeUnit.NANOSECONDS);
                    long at = System.nanoTime();
                    if (!open) {
                        throw new IllegalStateException("not open in time");
                    }
                    tally.awake(at, page.released(lap % SLOTS));
                } catch (Exception e) {
                    tally.fail(e);
                }
            });
            thread.setDaemon(true);
            threads.add(thread);
            thread.start();
        }
        started.await();
        progress.say();
        for (Thread thread : threads) {
            thread.join();
        }
        progress.say();
        return tallies;
    }
}
