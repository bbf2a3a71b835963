package holdfast;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RPermitExpirableSemaphore;

/** The commands to permits. */
final class Permits {
    private Permits() {
    }

    static Object act(RPermitExpirableSemaphore permits, Ask ask) throws Exception {
        long lease = ask.lease > 0 ? ask.lease : -1;
        switch (ask.op) {
            case "trySetPermits":
                return permits.trySetPermits(ask.n);
            case "setPermits":
                permits.setPermits(ask.n);
                return true;
            case "acquire":
                return permits.acquire(ask.n, lease, TimeUnit.MILLISECONDS);
            case "tryAcquire":
                List<String> ids = permits.tryAcquire(ask.n, ask.wait, lease, TimeUnit.MILLISECONDS);
                return ids == null ? List.of() : ids;
            case "release":
                permits.release(ask.ids);
                return true;
            case "tryRelease":
                return permits.tryRelease(ask.ids);
            case "available":
                return permits.availablePermits();
            case "acquired":
                return permits.acquiredPermits();
            default:
                throw new IllegalArgumentException("no such command to permits: " + ask.op);
        }
    }
}
