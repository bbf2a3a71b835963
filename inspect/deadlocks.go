package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/deadlock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/pipeline"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// Deadlock is a circle of waits. Each waits for what the next one has, and the last one for what the
// first one has. None of them ends by itself, unless it has a limit. A circle may be one wait, for
// what its own caller has.
type Deadlock []Blocked

// Blocked is one wait of a circle.
type Blocked struct {
	Client string // the id
	Label  string // who the client is, see Label of holdfast.Options
	Kind   string // of the lock that it waits for: the package, as "rlock"
	Name   string // of that lock
	Waited time.Duration
	Has    string // the name of the lock that it has, and that the wait before it is for
	Owner  string // of that lock, as [Holder] has it
	Token  uint64 // of that hold
}

func (d Deadlock) String() string {
	parts := make([]string, len(d))
	for i, b := range d {
		who := printable.Name(b.Client)
		if b.Label != "" {
			who = fmt.Sprintf("%s (%s)", printable.Name(b.Label), who)
		}
		parts[i] = fmt.Sprintf("%s has %s and waits for %s", who, printable.Quote(b.Has), printable.Quote(b.Name))
	}
	return strings.Join(parts, ", ")
}

// mostTexts is how many clients are heard at most.
const mostTexts = 10_000

// Deadlocks finds circles of waits over all clients, of locks that one server grants, or of quorums
// whose first master this is. Clients write to Redis which waits have lasted for LongWait of
// holdfast.Options, if their callers hold other locks, as far as their contexts tell. Deadlocks sees
// only circles of such waits.
//
// Deadlocks reads these texts. If they show a circle, it waits until the clients have written two
// more, and reads again. That takes about half of LongWait, and about a minute at most, whatever the
// texts say. It also checks that the holders still stand in Redis. So the circles that it returns
// stood at one moment between the two reads. Deadlocks changes nothing, and goes through the keys in
// steps, as [Inspector.Locks] does.
func (i *Inspector) Deadlocks(ctx context.Context) (_ []Deadlock, err error) {
	defer func() { err = printable.Error(err) }()
	clients, err := i.sayers(ctx)
	if err != nil || len(clients) == 0 {
		return nil, err
	}
	var watch deadlock.Watch
	var until time.Time
	var certain []deadlock.Circle
	for {
		said, every, err := i.said(ctx, clients)
		if err != nil {
			return nil, err
		}
		if until.IsZero() {
			until = time.Now().Add(4*every + 2*time.Second)
		}
		certain = append(certain, watch.See(deadlock.NewGraph(said...).Circles(""))...)
		if !watch.Doubted() || time.Now().After(until) {
			return i.verify(ctx, certain)
		}
		rest := time.Now()
		timer := time.NewTimer(min(max(every/4, 10*time.Millisecond), time.Second))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
		if i.opts.Rested != nil {
			i.opts.Rested(time.Since(rest))
		}
	}
}

// sayers are the clients that say something of their waits.
func (i *Inspector) sayers(ctx context.Context) (clients []string, err error) {
	masters, err := i.masters(ctx)
	if err != nil {
		return nil, err
	}
	for _, master := range masters {
		for cursor := uint64(0); ; {
			found, next, err := master.Scan(ctx, cursor, keys.SearchWaits, i.opts.Step).Result()
			if err != nil {
				return nil, err
			}
			for _, key := range found {
				if client, ok := keys.WaitsOf(key); ok && !slices.Contains(clients, client) && len(clients) < mostTexts {
					clients = append(clients, client)
				}
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	slices.Sort(clients)
	return clients, nil
}

// said reads the texts of clients, and the longest time between two of one client.
func (i *Inspector) said(ctx context.Context, clients []string) (all []*deadlock.Published, every time.Duration, err error) {
	for chunk := range slices.Chunk(clients, batch) {
		pipe, cmds := i.rdb.Pipeline(), make([]*redis.StringCmd, len(chunk))
		for n, client := range chunk {
			cmds[n] = pipe.Get(ctx, keys.Waits(client))
		}
		pipeline.Exec(ctx, pipe) // each command keeps its own error
		for n, cmd := range cmds {
			text, err := cmd.Result()
			if errors.Is(err, redis.Nil) {
				continue
			}
			if err != nil {
				return nil, 0, err
			}
			if s, err := deadlock.Parse(text); err == nil && s.Client == chunk[n] { // else it is of a later version
				all = append(all, s)
				every = max(every, time.Duration(s.EveryMS)*time.Millisecond)
			}
		}
	}
	return all, every, nil
}

// verify returns the certain circles whose holders are confirmed by Redis.
func (i *Inspector) verify(ctx context.Context, circles []deadlock.Circle) (list []Deadlock, err error) {
	for _, c := range circles {
		all := true
		var d Deadlock
		for _, s := range c {
			d = append(d, Blocked{
				Client: s.Published.Client, Label: s.Published.Label, Kind: s.Wait.Kind, Name: s.Wait.Name, Waited: s.Wait.Waited(),
				Has: s.Has.Name, Owner: s.Has.Owner, Token: s.Has.Token,
			})
			if s.Has.Several > 0 {
				continue // a majority of the masters knows, and this may not be one of that
			}
			if keys.Check(s.Has.Name) != nil { // no client has written this
				all = false
				continue
			}
			l, err := i.Lock(ctx, s.Has.Name)
			if err != nil {
				return nil, err
			}
			all = all && (l.More || slices.ContainsFunc(l.Holders, func(h Holder) bool { return h.Owner == s.Has.Owner }))
		}
		if all {
			list = append(list, d)
		}
	}
	return list, nil
}
