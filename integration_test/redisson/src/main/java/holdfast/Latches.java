package holdfast;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;

/** The commands to latches. */
final class Latches {
    private Latches() {
    }

    static Object act(RCountDownLatch latch, Ask ask) throws Exception {
        switch (ask.op) {
            case "trySetCount":
                return latch.trySetCount(ask.n);
            case "countDown":
                latch.countDown();
                return true;
            case "await":
                return latch.await(ask.wait, TimeUnit.MILLISECONDS);
            case "count":
                return latch.getCount();
            case "delete":
                return latch.delete();
            default:
                throw new IllegalArgumentException("no such command to a latch: " + ask.op);
        }
    }
}
