package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// connections: a server without room for one more refuses a process that has just started.
func connections(_ context.Context, p *patient) []Finding {
	info := p.infos["clients"]
	if info.err != nil {
		return hidden("INFO clients is refused", info.err,
			"a server that has all the clients it takes refuses a new process", "+info")
	}
	now, known := info.number("connected_clients")
	most, limited := info.number("maxclients") // since 7.0
	if !limited {
		most, limited = p.number("maxclients")
	}
	turnedAway, _ := p.infos["stats"].number("rejected_connections")
	switch {
	case !known || !limited:
		return []Finding{{
			Level: Unknown, Found: "the server does not tell how many clients it takes",
			Means: "one that has all it takes refuses a new process", Remedy: "run this as a user with +config|get",
		}}
	case now*10 >= most*9:
		return []Finding{{
			Level: Warning, Found: fmt.Sprintf("%d of %d clients", now, most),
			Means:  "when it has all it takes, a new process and a connection that broke are refused, and holds are lost",
			Remedy: "raise maxclients, or lower the PoolSize of the clients",
		}}
	case turnedAway > 0:
		return []Finding{{
			Level: Note, Found: fmt.Sprintf("%d of %d clients; %d were turned away since it started", now, most, turnedAway),
			Means: "it had all it takes", Remedy: "raise maxclients, or lower the PoolSize of the clients",
		}}
	}
	return ok("%d of %d clients", now, most)
}

// fewBytes is a buffer that a burst of releases fills: 100 000 messages of a long name.
const fewBytes = 1 << 20

// buffers: who does not read fast enough is cut off, and who waits hears nothing meanwhile.
func buffers(_ context.Context, p *patient) []Finding {
	text, known := p.config("client-output-buffer-limit")
	if !known {
		return []Finding{{
			Level: Unknown, Found: "the server does not tell its client-output-buffer-limit",
			Means:  "with a small one for pub/sub, a burst of releases cuts off those who wait, until they have subscribed again",
			Remedy: "run this as a user with +config|get",
		}}
	}
	words := strings.Fields(text)
	for i, word := range words {
		if word != "pubsub" || i+3 >= len(words) {
			continue
		}
		hard, _ := strconv.ParseInt(words[i+1], 10, 64)
		soft, _ := strconv.ParseInt(words[i+2], 10, 64)
		limit := "client-output-buffer-limit is pubsub " + strings.Join(words[i+1:i+4], " ")
		if hard > 0 && hard < fewBytes || soft > 0 && soft < fewBytes {
			return []Finding{{
				Level: Warning, Found: limit,
				Means:  "a burst of releases cuts off those who wait, until they have subscribed again",
				Remedy: `CONFIG SET client-output-buffer-limit "pubsub 33554432 8388608 60", which is the default`,
			}}
		}
		return ok("%s", limit)
	}
	return ok("client-output-buffer-limit has none for pub/sub")
}

// timeouts: how long go-redis waits for a server that is silent, against the lease. Of this client:
// that of a service may have others.
func timeouts(_ context.Context, p *patient) []Finding {
	read, dial := clientTimeouts(p.rdb)
	const where = "?read_timeout=1s in the address here, ReadTimeout in the options of go-redis"
	switch {
	case read <= 0: // go-redis has put its default where there was none
		return []Finding{{
			Level: Error, Found: "ReadTimeout is none", Means: "an operation on a server that is silent never returns",
			Remedy: where,
		}}
	case read >= p.Lease:
		return []Finding{{
			Level: Error, Found: fmt.Sprintf("ReadTimeout is %v, and the lease %v", read, p.Lease),
			Means:  "a renewal whose answer is lost is still waited for when the lease has ended: the hold is lost",
			Remedy: "well below a third of the lease: " + where,
		}}
	case read > p.Lease/3:
		return []Finding{{
			Level: Warning, Found: fmt.Sprintf("ReadTimeout is %v, and a third of the lease %v", read, p.Lease/3),
			Means:  "one answer that is lost takes the time of a renewal; after two the hold may be lost",
			Remedy: "well below a third of the lease: " + where,
		}}
	case dial > p.Lease/3:
		return []Finding{{
			Level: Warning, Found: fmt.Sprintf("DialTimeout is %v, and a third of the lease %v", dial, p.Lease/3),
			Means:  "a connection that does not come about takes the time of a renewal",
			Remedy: "?dial_timeout=1s in the address here, DialTimeout in the options of go-redis",
		}}
	}
	return ok("ReadTimeout %v and DialTimeout %v of this client are below a third of the lease, %v", read, dial, p.Lease/3)
}

func clientTimeouts(rdb redis.UniversalClient) (read, dial time.Duration) {
	switch client := rdb.(type) {
	case *redis.Client:
		return client.Options().ReadTimeout, client.Options().DialTimeout
	case *redis.ClusterClient:
		return client.Options().ReadTimeout, client.Options().DialTimeout
	}
	return 0, 0 // admit refuses it
}
