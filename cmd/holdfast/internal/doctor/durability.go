package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	fence = "check fencing tokens at what the lock protects"
	twice = "a lock that is held can be granted again, until its first holder's next renewal"
)

// persistence: what is still known after a restart.
func persistence(_ context.Context, p *patient) []Finding {
	info := p.infos["persistence"]
	if info.err != nil {
		return hidden("INFO persistence is refused", info.err, "after a restart of a server that forgets, "+twice, "+info")
	}
	if info.fields["loading"] == "1" {
		return []Finding{{Level: Error, Found: "the server is loading its data", Means: "it refuses everything meanwhile",
			Remedy: "wait"}}
	}
	found := saving(p)
	if status := info.fields["aof_last_write_status"]; info.fields["aof_enabled"] == "1" && status == "err" {
		found = append(found, Finding{
			Level: Error, Found: "the append-only file cannot be written (aof_last_write_status: err)",
			Means: "the server refuses locks, renewals and releases", Remedy: "see its log; the disk may be full",
		})
	}
	if info.fields["rdb_last_bgsave_status"] == "err" {
		found = append(found, Finding{
			Level: Error, Found: "the last snapshot failed (rdb_last_bgsave_status: err)",
			Means:  "with stop-writes-on-bgsave-error, the default, the server refuses locks, renewals and releases",
			Remedy: "see its log; the disk may be full",
		})
	}
	return found
}

// keepFile is pasted into redis-cli up to the comma.
const keepFile = "CONFIG SET appendonly yes, and CONFIG REWRITE so that a restart keeps the setting"

// saving is how much a restart forgets.
func saving(p *patient) []Finding {
	if p.infos["persistence"].fields["aof_enabled"] == "1" {
		switch sync, known := p.config("appendfsync"); {
		case !known:
			return []Finding{{
				Level: Unknown, Found: "appendonly is yes; how often the file is synced, the server does not tell",
				Means:  "unless appendfsync is always, a crash of the machine forgets the last grants",
				Remedy: "run this as a user with +config|get",
			}}
		case sync == "always":
			return ok("appendonly is yes, appendfsync always")
		default:
			lost := "the last second of grants"
			if sync == "no" {
				lost = "grants of up to half a minute"
			}
			return []Finding{{
				Level: Note, Found: "appendonly is yes, appendfsync " + sync,
				Means:  "a crash of the machine forgets " + lost + ": " + twice,
				Remedy: "appendfsync always, if locks are worth the disk's time; and " + fence,
			}}
		}
	}
	snapshots, known := p.config("save")
	followers, _ := p.infos["replication"].number("connected_slaves")
	f := Finding{Level: Warning, Remedy: keepFile + "; and " + fence}
	switch {
	case known && snapshots == "":
		f.Found, f.Means = "nothing is written to disk", "a restart forgets all locks at once: "+twice
		if followers > 0 {
			f.Level = Error
			f.Means = "a restart forgets all locks at once, and empties the replicas too: " + twice
			f.Remedy = keepFile + "; or no restart by itself, so that a replica is promoted; and " + fence
		}
	case known:
		f.Found, f.Means = "snapshots only (save "+strconv.Quote(snapshots)+")",
			"a restart brings back the locks of the last snapshot, and forgets those since: "+twice
	default:
		f.Found = "no append-only file; whether there are snapshots, the server does not tell"
		f.Means = "a restart forgets the locks since the last snapshot, or all: " + twice
	}
	return []Finding{f}
}

// replicas: what a failover forgets, and whether a master that is cut off goes on granting.
func replicas(_ context.Context, p *patient) []Finding {
	info := p.infos["replication"]
	if info.err != nil {
		return hidden("INFO replication is refused", info.err, "a failover to a replica that is behind forgets grants",
			"+info")
	}
	if info.fields["role"] != "master" {
		return nil // which the role says
	}
	followers, _ := info.number("connected_slaves")
	good, asked := info.number("min_slaves_good_slaves") // there only if min-replicas-to-write is set
	least, leastKnown := p.number("min-replicas-to-write")
	lag, lagKnown := p.number("min-replicas-max-lag")
	switch {
	case asked && leastKnown && good < least:
		return []Finding{{
			Level: Error, Found: fmt.Sprintf("%d of min-replicas-to-write %d replicas are up to date", good, least),
			Means:  "the server refuses locks, renewals and releases (NOREPLICAS)",
			Remedy: "bring the replicas back: see INFO replication",
		}}
	case followers == 0:
		return []Finding{{
			Level: Note, Found: "no replicas",
			Means:  "while the server is down there are no locks, and those that are held are lost when their leases end",
			Remedy: "replicas behind Sentinel or in a Cluster; or redlock, on three or five independent masters",
		}}
	case !asked:
		return []Finding{{
			Level: Warning, Found: fmt.Sprintf("%s, min-replicas-to-write is 0", plural(followers, "replica")),
			Means: "a master that is cut off goes on granting locks while a replica that was promoted grants them too: both are lost " +
				"to the other side when they meet again",
			Remedy: "min-replicas-to-write 1, min-replicas-max-lag 10 or less than a third of the lease; and " + fence,
		}}
	case lagKnown && time.Duration(lag)*time.Second > p.Lease:
		return []Finding{{
			Level: Warning, Found: fmt.Sprintf("min-replicas-max-lag is %d s, and the lease %v", lag, p.Lease),
			Means:  "a master that is cut off goes on granting locks for longer than a lease, after a replica was promoted",
			Remedy: "CONFIG SET min-replicas-max-lag to less than a third of the lease",
		}}
	}
	if behind := p.behind(); behind != "" {
		return []Finding{{
			Level: Warning, Found: behind, Means: "a failover to it forgets grants: " + twice,
			Remedy: "see its link; Replicas makes a grant wait for replicas",
		}}
	}
	return []Finding{{
		Level: Note, Found: fmt.Sprintf("%s, of which %d are up to date", plural(followers, "replica"), good),
		Means:  "replicas are told after the client is: a failover can forget the last grants",
		Remedy: "Replicas narrows that window; and " + fence,
	}}
}

// behind names the first replica that is not in step.
func (p *patient) behind() string {
	fields := p.infos["replication"].fields
	for i := 0; ; i++ {
		text, there := fields["slave"+strconv.Itoa(i)]
		if !there {
			return ""
		}
		state := map[string]string{}
		for part := range strings.SplitSeq(text, ",") {
			key, value, _ := strings.Cut(part, "=")
			state[key] = value
		}
		lag, _ := strconv.Atoi(state["lag"])
		name := "the replica " + state["ip"] + ":" + state["port"]
		switch {
		case state["state"] != "online":
			return name + " is not in step: " + state["state"]
		case time.Duration(lag)*time.Second > p.Lease/3:
			return fmt.Sprintf("%s is %d s behind, and a third of the lease is %v", name, lag, p.Lease/3)
		}
	}
}

// number is a parameter that is one.
func (p *patient) number(name string) (int64, bool) { return p.configs[name].number(name) }

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
