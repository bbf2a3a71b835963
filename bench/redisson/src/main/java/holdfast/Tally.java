package holdfast;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.HdrHistogram.Histogram;

/** What one thread counts; tally.go says how. */
final class Tally {
    final Histogram waits = new Histogram(1, 100_000_000_000L, 3), gaps = new Histogram(1, 100_000_000_000L, 3);
    long count, waitSum, longest, gapSum, handover, moved, entries, errors, reads, longestRead;
    boolean aside;
    String error = "";

    void fail(Throwable e) {
        if (errors++ == 0) {
            error = String.valueOf(e);
        }
    }

    void grant(Job.Window window, long me, long began, long granted, long releaser, long released) {
        entries++;
        if (granted < window.from || granted >= window.to) {
            return;
        }
        count++;
        long wait = granted - began;
        waitSum += wait;
        longest = Math.max(longest, wait);
        record(waits, wait);
        if (released < window.from) {
            return;
        }
        handover++;
        gapSum += granted - released;
        record(gaps, granted - released);
        if (releaser != me) {
            moved++;
        }
    }

    /** What a reader did beside writers, if some of it was within the window. */
    void read(Job.Window window, long granted, long released) {
        entries++;
        if (released < window.from || granted >= window.to) {
            return;
        }
        reads++;
        longestRead = Math.max(longestRead, released - granted);
    }

    /** A wait for a latch that ended at a moment; 0: the last count-down had not begun. */
    void awake(long at, long counted) {
        if (counted == 0) {
            fail(new IllegalStateException("the wait ended before the last count-down had begun"));
            return;
        }
        handover++;
        record(gaps, at - counted);
    }

    private static void record(Histogram h, long ns) {
        h.recordValue(Math.min(Math.max(ns, 1), h.getHighestTrackableValue()));
    }

    static Map<String, Object> merge(List<Tally> all) {
        Tally sum = new Tally();
        List<Long> grants = new ArrayList<>();
        for (Tally t : all) {
            if (!t.aside) {
                grants.add(t.count);
                sum.longest = Math.max(sum.longest, t.longest);
            }
            sum.reads += t.reads;
            sum.longestRead = Math.max(sum.longestRead, t.longestRead);
            sum.waits.add(t.waits);
            sum.gaps.add(t.gaps);
            sum.waitSum += t.waitSum;
            sum.gapSum += t.gapSum;
            sum.handover += t.handover;
            sum.moved += t.moved;
            sum.entries += t.entries;
            if (sum.errors == 0) {
                sum.error = t.error;
            }
            sum.errors += t.errors;
        }
        Map<String, Object> r = new LinkedHashMap<>();
        r.put("grants", grants);
        r.put("waits", encode(sum.waits));
        r.put("waitSum", sum.waitSum);
        r.put("longest", sum.longest);
        r.put("gaps", encode(sum.gaps));
        r.put("gapSum", sum.gapSum);
        r.put("handover", sum.handover);
        r.put("moved", sum.moved);
        r.put("entries", sum.entries);
        r.put("reads", sum.reads);
        r.put("longestRead", sum.longestRead);
        r.put("errors", sum.errors);
        r.put("error", sum.error);
        return r;
    }

    private static String encode(Histogram h) {
        ByteBuffer buffer = ByteBuffer.allocate(h.getNeededByteBufferCapacity());
        int length = h.encodeIntoCompressedByteBuffer(buffer);
        return Base64.getEncoder().encodeToString(java.util.Arrays.copyOf(buffer.array(), length));
    }
}
