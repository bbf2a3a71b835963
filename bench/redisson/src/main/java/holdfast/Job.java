package holdfast;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;

/** What a worker is told; protocol.go says what the fields mean. Times are nanoseconds. */
@JsonIgnoreProperties(ignoreUnknown = true)
final class Job {
    public String task, contender, addr, page, name;
    public boolean each;
    public int process, clients, goroutines;
    public long section, lease;

    /** What is measured. */
    @JsonIgnoreProperties(ignoreUnknown = true)
    static final class Window {
        public long from, to;
    }
}
