package holdfast;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.LongCodec;

/** The commands to locks of all kinds. */
final class Locks {
    /** A thread keeps its lock in a variable, as services do: the object remembers the lease of its last lock(lease). */
    private final Map<String, RLock> kept = new ConcurrentHashMap<>();

    Object act(RedissonClient client, Ask ask) throws Exception {
        String key = String.join("\n", ask.client, ask.thread, ask.kind, ask.name, String.join("\n", ask.names));
        RLock lock = kept.computeIfAbsent(key, k -> make(client, ask));
        long lease = ask.lease > 0 ? ask.lease : -1;
        switch (ask.op) {
            case "lock":
                lock.lock(lease, TimeUnit.MILLISECONDS);
                return true;
            case "lockInterruptibly":
                lock.lockInterruptibly(lease, TimeUnit.MILLISECONDS);
                return true;
            case "tryLock":
                return lock.tryLock();
            case "tryLockFor":
                return lock.tryLock(ask.wait, lease, TimeUnit.MILLISECONDS);
            case "lockAndGetToken":
                return token(((RFencedLock) lock).lockAndGetToken());
            case "tryLockAndGetToken":
                return token(((RFencedLock) lock).tryLockAndGetToken(ask.wait, lease, TimeUnit.MILLISECONDS));
            case "lockAndMark":
                lock.lock(lease, TimeUnit.MILLISECONDS);
                return token(mark(client, ask));
            case "tryLockAndMark":
                boolean got = ask.wait > 0 ? lock.tryLock(ask.wait, lease, TimeUnit.MILLISECONDS) : lock.tryLock();
                return token(got ? mark(client, ask) : null);
            case "unlock":
                lock.unlock();
                return true;
            case "forceUnlock":
                return lock.forceUnlock();
            case "isHeld":
                return lock.isHeldByCurrentThread();
            case "holdCount":
                return lock.getHoldCount();
            default:
                throw new IllegalArgumentException("no such command to a lock: " + ask.op);
        }
    }

    /** As text: it does not fit into a double, which JSON's numbers may become. */
    private static String token(Long token) {
        return token == null ? "" : token.toString();
    }

    /** What RFencedLock does within its script, for kinds that do not: the holder takes the next fencing token. Who reads has the last
     * one: nobody takes one meanwhile. */
    private static Long mark(RedissonClient client, Ask ask) {
        String name = ask.name.contains("{") ? ask.name : "{" + ask.name + "}";
        String script = ask.kind.equals("read") ? "return tonumber(redis.call('get', KEYS[1]))" : "return redis.call('incr', KEYS[1])";
        return client.getScript(LongCodec.INSTANCE).eval(RScript.Mode.READ_WRITE, script,
                RScript.ReturnType.LONG, List.of("redisson_lock_token:" + name));
    }

    private static RLock make(RedissonClient client, Ask ask) {
        switch (ask.kind) {
            case "lock":
                return client.getLock(ask.name);
            case "fair":
                return client.getFairLock(ask.name);
            case "fenced":
                return client.getFencedLock(ask.name);
            case "spin":
                return client.getSpinLock(ask.name);
            case "read":
                return client.getReadWriteLock(ask.name).readLock();
            case "write":
                return client.getReadWriteLock(ask.name).writeLock();
            case "multi":
                return client.getMultiLock(ask.names.stream().map(client::getLock).toArray(RLock[]::new));
            default:
                throw new IllegalArgumentException("no such kind: " + ask.kind);
        }
    }
}
