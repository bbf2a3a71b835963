package holdfast;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** The page that all workers share; page.go says what stands where. */
final class Page {
    private static final int SLOT_BYTES = 128;
    private static final int SLOTS = 64;
    private static final VarHandle WORD =
            MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final int HOLDER = 0, ENTRIES = 8, RELEASED = 24, RELEASER = 32, OVERLAPS = 40,
            INSIDE = 56;

    private final ByteBuffer memory;

    Page(String path) throws IOException {
        try (FileChannel file = FileChannel.open(Path.of(path), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            memory = file.map(FileChannel.MapMode.READ_WRITE, 0, (long) SLOT_BYTES * (1 + SLOTS));
        }
    }

    static long participant(int process, int thread) {
        return ((long) (process + 1) << 32) | (thread + 1);
    }

    private int at(int slot, int word) {
        return SLOT_BYTES * (1 + slot) + word;
    }

    private long get(int at) {
        return (long) WORD.getVolatile(memory, at);
    }

    /** Called by who has just got the lock. Who released last is then {@link #releaser}, and when {@link #released}. */
    void enter(int slot, long me) {
        if (!WORD.compareAndSet(memory, at(slot, HOLDER), 0L, me)) {
            long other = (long) WORD.getAndSet(memory, at(slot, HOLDER), me);
            if (other != 0 && other >>> 32 != get(0)) {
                WORD.getAndAdd(memory, at(slot, OVERLAPS), 1L);
            }
        }
        if (get(at(slot, INSIDE)) != 0) {
            WORD.getAndAdd(memory, at(slot, OVERLAPS), 1L);
        }
        WORD.setVolatile(memory, at(slot, ENTRIES), get(at(slot, ENTRIES)) + 1);
    }

    /** Called in place of {@link #enter} by who is inside with others, so many at most. */
    void share(int slot, int most) {
        long inside = (long) WORD.getAndAdd(memory, at(slot, INSIDE), 1L) + 1;
        if (inside > most || get(at(slot, HOLDER)) != 0) {
            WORD.getAndAdd(memory, at(slot, OVERLAPS), 1L);
        }
        WORD.getAndAdd(memory, at(slot, ENTRIES), 1L);
    }

    /** Called in place of {@link #leave} by who has shared. */
    void unshare(int slot) {
        WORD.getAndAdd(memory, at(slot, INSIDE), -1L);
    }

    void release(int slot, long time) {
        WORD.setVolatile(memory, at(slot, RELEASED), time);
    }

    long released(int slot) {
        return get(at(slot, RELEASED));
    }

    long releaser(int slot) {
        return get(at(slot, RELEASER));
    }

    /** Called by the holder just before it unlocks. */
    void leave(int slot, long me) {
        WORD.setVolatile(memory, at(slot, RELEASER), me);
        WORD.setVolatile(memory, at(slot, RELEASED), System.nanoTime());
        if (!WORD.compareAndSet(memory, at(slot, HOLDER), me, 0L)) {
            WORD.getAndAdd(memory, at(slot, OVERLAPS), 1L);
        }
    }
}
