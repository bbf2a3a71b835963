package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// version: what the tests of the library run on.
func version(_ context.Context, p *patient) []Finding {
	info := p.infos["server"]
	if info.err != nil {
		return hidden("INFO server is refused", info.err, "a server older than Redis 6.0 does not run the scripts", "+info")
	}
	name, text := "Redis", info.fields["redis_version"]
	if v := info.fields["valkey_version"]; v != "" {
		name, text = "Valkey", v
	}
	major, err := strconv.Atoi(strings.SplitN(text, ".", 2)[0])
	switch {
	case err != nil:
		return []Finding{{
			Level: Unknown, Found: fmt.Sprintf("the server calls its version %q", text),
			Means: "it may be something else than Redis or Valkey, on which the scripts were not tested",
		}}
	case name == "Redis" && major < 6:
		return []Finding{{
			Level: Error, Found: "Redis " + text, Means: "the scripts need Redis 6.0",
			Remedy: "use Redis 6.0 or later, or Valkey",
		}}
	}
	return ok("%s %s", name, text)
}

// role: locks are asked of a master.
func role(_ context.Context, p *patient) []Finding {
	info := p.infos["replication"]
	if info.err != nil {
		return hidden("INFO replication is refused", info.err, "a replica refuses all that changes a lock", "+info")
	}
	switch text := info.fields["role"]; text {
	case "master":
		return ok("a master")
	case "slave":
		found := fmt.Sprintf("a replica of %s:%s", info.fields["master_host"], info.fields["master_port"])
		if info.fields["master_link_status"] != "up" {
			found += ", without a connection to it"
		}
		return []Finding{{
			Level: Error, Found: found, Means: "it refuses all that changes a lock",
			Remedy: "name the master in the address, or have it found by redis+sentinel:// or redis+cluster://",
		}}
	default:
		return []Finding{{
			Level: Error, Found: fmt.Sprintf("neither master nor replica: %q", text), Means: "it grants no locks",
			Remedy: "name a data server; a Sentinel is asked by redis+sentinel://",
		}}
	}
}

// cluster: whether the client is one for a Cluster, and all slots are served.
func cluster(ctx context.Context, p *patient) []Finding {
	info := p.infos["cluster"]
	enabled := info.fields["cluster_enabled"] == "1"
	switch {
	case info.err != nil && !p.cluster:
		return hidden("INFO cluster is refused", info.err,
			"a node of a Cluster that is asked as if it were alone serves the locks of its own slots only", "+info")
	case !enabled && !p.cluster:
		return nil
	case enabled && !p.cluster:
		return []Finding{{
			Level: Error, Found: "a node of a Cluster, and the client asks it alone",
			Means:  "it refuses the locks that belong to other nodes (MOVED)",
			Remedy: "use a ClusterClient: redis+cluster://host,host",
		}}
	}
	text, err := p.node.ClusterInfo(ctx).Result()
	if err != nil {
		return hidden("CLUSTER INFO is refused", err, "locks whose slots no master serves are refused", "+cluster|info")
	}
	state := infoFields(text)
	if state["cluster_state"] != "ok" {
		return []Finding{{
			Level: Error,
			Found: fmt.Sprintf("cluster_state is %s: %s of 16384 slots are served, %s fail", state["cluster_state"],
				state["cluster_slots_ok"], state["cluster_slots_fail"]),
			Means:  "locks are refused, and those that are held are lost when their leases end",
			Remedy: "see CLUSTER NODES for masters that are down; give each a replica",
		}}
	}
	if v := p.infos["server"].fields["redis_version"]; strings.HasPrefix(v, "6.") {
		return []Finding{{
			Level: Note, Found: "cluster_state is ok; Redis " + v + " has no sharded pub/sub",
			Means:  "each release is announced to all nodes, and clients do not learn who listens: Keep keeps nothing",
			Remedy: "Redis 7 or later announces to one node",
		}}
	}
	return ok("cluster_state is ok, with sharded pub/sub")
}
