package doctor

import (
	"context"
	"fmt"
	"strings"
)

// eviction: a server that is full takes the keys of locks, which all have a time to live, as it takes
// others.
func eviction(_ context.Context, p *patient) []Finding {
	info := p.infos["memory"]
	policy := info.fields["maxmemory_policy"]
	switch {
	case info.err != nil:
		return hidden("INFO memory is refused", info.err, "a server that evicts keys forgets locks that are held", "+info")
	case policy == "":
		return []Finding{{
			Level: Unknown, Found: "the server does not tell its maxmemory-policy",
			Means: "a server that evicts keys forgets locks that are held", Remedy: "ask whoever runs the server for noeviction",
		}}
	case policy == "noeviction":
		return ok("maxmemory-policy is noeviction")
	}
	found := "maxmemory-policy is " + policy
	if n, _ := p.infos["stats"].number("evicted_keys"); n > 0 {
		found += fmt.Sprintf(", and %d keys have been evicted", n)
	}
	limit, known := info.number("maxmemory")
	if known && limit == 0 {
		return []Finding{{
			Level: Note, Found: found + "; there is no maxmemory", Means: "nothing is evicted until somebody sets maxmemory",
			Remedy: "CONFIG SET maxmemory-policy noeviction",
		}}
	}
	which := "any key"
	if strings.HasPrefix(policy, "volatile-") {
		which = "keys with a time to live, as all locks have"
	}
	return []Finding{{
		Level: Error, Found: found,
		Means: "when memory is short it deletes " + which +
			": a lock that is held is free, and its holder learns of it at its next renewal",
		Remedy: "CONFIG SET maxmemory-policy noeviction, or a server of their own for locks",
	}}
}

// memory: a full server refuses new locks; those that are held are renewed and released.
func memory(_ context.Context, p *patient) []Finding {
	info := p.infos["memory"]
	used, known := info.number("used_memory")
	limit, _ := info.number("maxmemory")
	switch {
	case info.err != nil:
		return hidden("INFO memory is refused", info.err, "a full server refuses locks", "+info")
	case !known:
		return []Finding{{Level: Unknown, Found: "the server does not tell how much memory it uses",
			Means: "a full server refuses locks"}}
	case limit == 0:
		return ok("%s used, no limit", size(used))
	case used*10 >= limit*9:
		return []Finding{{
			Level: Warning, Found: fmt.Sprintf("%s of %s used", size(used), size(limit)),
			Means:  "a full server refuses new locks; those that are held are renewed and released",
			Remedy: "raise maxmemory, or delete what nobody needs",
		}}
	}
	return ok("%s of %s used", size(used), size(limit))
}

func size(bytes int64) string {
	const mib = 1 << 20
	if bytes < 10*mib {
		return fmt.Sprintf("%.1f MiB", float64(bytes)/mib)
	}
	return fmt.Sprintf("%d MiB", bytes/mib)
}
