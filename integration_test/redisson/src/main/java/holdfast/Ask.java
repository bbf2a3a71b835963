package holdfast;

import java.util.List;

/** One command; protocol.go says what the fields mean. Times are milliseconds. */
final class Ask {
    public int id;
    public String op = "", client = "", thread = "", kind = "", name = "";
    public List<String> names = List.of(), ids = List.of();
    public long wait, lease;
    public int n;
    public Settings settings;

    /** What a client is made with. */
    static final class Settings {
        public String mode = "", master = "", prefix = "", sharded = "";
        public List<String> addrs = List.of();
        public long watchdog, fairWait, timeout;
    }
}
