package doctor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// ExamineMasters looks at the masters of a quorum lock: at each as [Examine] does, and at whether they
// are as independent as a majority needs. A master that does not answer is a finding; the error is of
// all of them.
func ExamineMasters(ctx context.Context, rdbs []redis.UniversalClient, s Settings) ([]Finding, error) {
	s = s.withDefaults()
	groups, errs := make([][]*patient, len(rdbs)), make([]error, len(rdbs))
	var all sync.WaitGroup
	for i, rdb := range rdbs {
		all.Go(func() { groups[i], errs[i] = admit(ctx, rdb, s) })
	}
	all.Wait()
	var patients []*patient
	var found []Finding
	for i, group := range groups {
		if errs[i] == nil {
			patients = append(patients, group...)
			continue
		}
		found = append(found, Finding{
			Check: "masters", Level: Error, Server: addressOf(rdbs[i]), Found: fmt.Sprintf("no answer: %v", errs[i]),
			Means:  "its vote is missing: the lock survives the loss of one master less",
			Remedy: "is it running, and is its address right?",
		})
	}
	if len(patients) == 0 {
		return nil, errs[0]
	}
	for _, f := range masters(patients, len(rdbs)) {
		f.Check = "masters"
		found = append(found, f)
	}
	each, err := examine(ctx, patients)
	return append(found, each...), err
}

func addressOf(rdb redis.UniversalClient) string {
	if client, one := rdb.(*redis.Client); one {
		return client.Options().Addr
	}
	return ""
}

// masters compares the masters of a quorum with each other. n is how many there are to be.
func masters(patients []*patient, n int) (found []Finding) {
	if n%2 == 0 {
		found = append(found, Finding{
			Level: Note, Found: fmt.Sprintf("%d masters, an even number", n),
			Means:  fmt.Sprintf("they survive the loss of %d, as %d masters do", (n-1)/2, n-1),
			Remedy: "three or five masters",
		})
	}
	seen := map[string]string{} // by what each calls itself
	for _, p := range patients {
		server := p.infos["server"]
		id := server.fields["run_id"]
		switch other, twice := seen[id]; {
		case id == "":
			found = append(found, Finding{
				Level: Unknown, Server: p.address, Found: "it does not tell which server it is",
				Means:  "two addresses of one server would have two votes",
				Remedy: "run this as a user with +info|server, which redlock needs too",
			})
		case twice:
			found = append(found, Finding{
				Level: Error, Server: p.address, Found: "the same server as " + other,
				Means: "it has two votes: its loss is the loss of two masters", Remedy: "give each master once",
			})
		default:
			seen[id] = p.address
		}
		if up, known := server.number("uptime_in_seconds"); known && time.Duration(up)*time.Second < p.Lease {
			found = append(found, Finding{
				Level: Note, Server: p.address, Found: fmt.Sprintf("started %d s ago", up),
				Means:  fmt.Sprintf("it may have forgotten a grant, and does not vote until a lease, %v, has passed", p.Lease),
				Remedy: "wait; TrustRestarts is for masters with appendfsync always",
			})
		}
	}
	if len(found) == 0 {
		found = ok("%d masters, which are different servers", n)
	}
	return found
}
