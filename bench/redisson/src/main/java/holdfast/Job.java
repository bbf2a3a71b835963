package holdfast;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;

/** What a worker is told; protocol.go says what the fields mean. Times are nanoseconds. */
@JsonIgnoreProperties(ignoreUnknown = true)
final class Job {
    public String task, contender, addr, page, name;
    public boolean each, readers;
    public int process, clients, goroutines, writers, permits, laps, warmLaps;
    public long section, lease, pause;

    /** Whether a thread only reads, and how many may be inside together; 0: it is alone there. */
    boolean reads(int thread) {
        return readers && thread >= writers;
    }

    int most(int thread) {
        return reads(thread) ? Integer.MAX_VALUE : permits;
    }

    /** What is measured. */
    @JsonIgnoreProperties(ignoreUnknown = true)
    static final class Window {
        public long from, to;
    }
}
