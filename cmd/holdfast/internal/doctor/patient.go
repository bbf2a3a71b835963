package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lua"
)

// patient is one server that grants locks.
type patient struct {
	Settings
	rdb     redis.UniversalClient // as locks use it
	node    *redis.Client         // this server alone
	address string                // host:port, as the client dials it
	cluster bool                  // rdb is the client of a Cluster
	probe   string                // a lock's name that nobody has, and that this server grants
	infos   map[string]answer     // sections of INFO
	configs map[string]answer     // parameters, each with its own name as the only field
	began   reading               // of its clock
	// patience is how long a message may take.
	patience time.Duration
}

// answer is a reply that is made of fields, or why there is none.
type answer struct {
	fields map[string]string
	err    error
}

// number is a field that is one. ok is false if there is no such field.
func (a answer) number(field string) (n int64, ok bool) {
	n, err := strconv.ParseInt(a.fields[field], 10, 64)
	return n, err == nil
}

var (
	sections   = []string{"server", "clients", "memory", "persistence", "stats", "replication", "cluster"}
	parameters = []string{
		"appendfsync", "save", "min-replicas-to-write", "min-replicas-max-lag", "client-output-buffer-limit", "maxclients",
	}
)

// admit asks each server for all that it tells of itself. Two round trips, whatever is refused.
func admit(ctx context.Context, rdb redis.UniversalClient, s Settings) (patients []*patient, err error) {
	switch client := rdb.(type) {
	case *redis.Client:
		patients = []*patient{{Settings: s, rdb: rdb, node: client, address: client.Options().Addr}}
	case *redis.ClusterClient:
		if patients, err = mastersOf(ctx, client, s); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("cannot examine a %T; give a *redis.Client or a *redis.ClusterClient", rdb)
	}
	for _, p := range patients {
		p.patience = patience
		if err := p.ask(ctx); err != nil {
			return nil, err
		}
		if p.probe == "" {
			p.probe = s.Prefix + "holdfast-doctor:" + rand.Text()[:12]
		}
	}
	return patients, nil
}

func mastersOf(ctx context.Context, client *redis.ClusterClient, s Settings) (patients []*patient, err error) {
	found := make(chan *redis.Client,
		1024) // masters are seen by several goroutines at once; a Cluster has at most 1000 nodes
	if err := client.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		found <- node
		return nil
	}); err != nil {
		return nil, err
	}
	close(found)
	for node := range found {
		p := &patient{Settings: s, rdb: client, node: node, address: node.Options().Addr, cluster: true}
		if p.probe, err = nameOn(ctx, client, p.address, s.Prefix); err != nil {
			return nil, err
		}
		patients = append(patients, p)
	}
	slices.SortFunc(patients, func(a, b *patient) int { return strings.Compare(a.address, b.address) })
	return patients, nil
}

// nameOn draws names until one belongs to this master. The client knows which by itself. "" is a
// master without slots, of which nobody asks for locks.
func nameOn(ctx context.Context, client *redis.ClusterClient, address, prefix string) (string, error) {
	for range 100_000 {
		name := prefix + "holdfast-doctor:" + rand.Text()[:12]
		node, err := client.MasterForKey(ctx, name)
		if err != nil {
			return "", err
		}
		if node.Options().Addr == address {
			return name, nil
		}
	}
	return "", fmt.Errorf("no key belongs to the master %s", address)
}

// ask fills infos and configs. An error means that the server does not answer, or lets nobody in.
func (p *patient) ask(ctx context.Context) (err error) {
	if p.began, err = readClock(ctx, p.node); err != nil && !refused(err) {
		return err
	}
	pipe := p.node.Pipeline()
	infos, configs := map[string]*redis.StringCmd{}, map[string]*redis.MapStringStringCmd{}
	for _, s := range sections {
		infos[s] = pipe.Info(ctx, s)
	}
	for _, c := range parameters {
		configs[c] = pipe.ConfigGet(ctx, c)
	}
	if _, err := pipe.Exec(ctx); err != nil && !refused(err) {
		return err
	}
	p.infos, p.configs = map[string]answer{}, map[string]answer{}
	for s, cmd := range infos {
		p.infos[s] = answer{infoFields(cmd.Val()), cmd.Err()}
	}
	for c, cmd := range configs {
		p.configs[c] = answer{cmd.Val(), cmd.Err()}
	}
	return nil
}

// refused reports whether a server has answered, with an error that says nothing of who we are: then
// other questions may have an answer.
func refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && lua.AuthProblemOf(err) == lua.AuthFine &&
		!unknownAuth.MatchString(err.Error())
}

// unknownAuth is what go-redis gets in place of a connection from a server whose AUTH has another name, or that has none.
var unknownAuth = regexp.MustCompile("(?i)unknown command ['`\"]auth['`\"]")

func infoFields(info string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[key] = value
		}
	}
	return fields
}

// config is a parameter's value. ok is false where the server does not tell.
func (p *patient) config(name string) (value string, ok bool) {
	value, ok = p.configs[name].fields[name]
	return value, ok
}

// brief is a duration with two or three digits that mean something.
func brief(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
