package holdfast;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/** What one thread locks. tryLock waits for so many nanoseconds, as Redisson's lock() waits for ever. */
interface Lockable {
    boolean tryLock(long nanos) throws Exception;

    void lock() throws Exception;

    void unlock();

    /** What a thread of a job locks. */
    static Lockable of(RedissonClient client, Job job, int thread) {
        String name = job.each ? job.name + ":" + thread : job.name;
        switch (job.contender) {
            case "redisson-fair":
                return of(client.getFairLock(name));
            case "redisson-rw":
                return of(job.reads(thread) ? client.getReadWriteLock(name).readLock() : client.getReadWriteLock(name).writeLock());
            case "redisson-permits":
                RPermitExpirableSemaphore semaphore = client.getPermitExpirableSemaphore(name);
                semaphore.trySetPermits(job.permits);
                return of(semaphore);
            default:
                return of(client.getLock(name));
        }
    }

    static Lockable of(RLock lock) {
        return new Lockable() {
            // In milliseconds: Redisson's fair lock takes the number for that in its queue, whatever the unit. With nanoseconds
            // each of its grants takes days off all places behind it, which Holdfast's then lose (package fairlock).
            public boolean tryLock(long nanos) throws Exception {
                return lock.tryLock(TimeUnit.NANOSECONDS.toMillis(nanos), TimeUnit.MILLISECONDS);
            }

            public void lock() {
                lock.lock();
            }

            public void unlock() {
                lock.unlock();
            }
        };
    }

    /** A permit of the default lease of locks, which nobody renews here. */
    static Lockable of(RPermitExpirableSemaphore semaphore) {
        return new Lockable() {
            private String permit;

            public boolean tryLock(long nanos) throws Exception {
                permit = semaphore.tryAcquire(TimeUnit.NANOSECONDS.toMillis(nanos), 30_000, TimeUnit.MILLISECONDS);
                return permit != null;
            }

            public void lock() throws Exception {
                permit = semaphore.acquire(30, TimeUnit.SECONDS);
            }

            public void unlock() {
                semaphore.release(permit);
            }
        };
    }
}
