package main

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// sight is a lock at one moment.
type sight struct {
	at      time.Time
	kind    string            // "" as long as nothing was there
	holders []holdfast.Holder // in the order of their owners
	token   uint64            // 0: none known
	waiters int               // -1: not known
	listen  bool              // they are connections that listen, because waiters have no places
	places  int               // of those: who has a place
	left    int               // of a latch: what is to be counted
	leader  string            // of an election: what the leader says of itself

	unlocked map[string]bool // owners that have unlocked a lock that stays taken
}

// An owner in Redis, ours or Redisson's. The letter is another one if the client keeps the lock, or serves calls.
var ownerForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[hks]?\d+$`)

// look asks what there is. Kinds are told apart at every look: the name may be used for another next.
func (w *watcher) look(ctx context.Context) (*sight, error) {
	if len(w.clients) > 1 {
		state, err := redlock.New(w.clients, w.name).State(ctx)
		if err != nil {
			return nil, err
		}
		if state.Owner == "" {
			state.Token = 0 // it may come from an attempt that is under way, or has failed
		}
		s := w.seen("redlock", state.State).honest()
		s.listen = true
		w.complete(ctx, s)
		return s, nil
	}
	s, err := w.lookAtKind(ctx)
	if err == nil {
		w.complete(ctx, s)
	}
	return s, err
}

// lookAtKind asks as that kind does which the key looks like.
func (w *watcher) lookAtKind(ctx context.Context) (*sight, error) {
	kind, err := w.kindOf(ctx)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		w.kind = kind
	}
	c := w.clients[0]
	switch kind {
	case "rwlock":
		state, err := rwlock.New(c, w.name).State(ctx)
		return w.sight(state.Holders, state.Token, state.Waiters).honest(), err
	case "semaphore":
		state, err := semaphore.New(c, w.name, 1).State(ctx) // the number is there, so this one does not count
		return w.sight(state.Holders, 0, state.Waiters), err
	case "latch":
		left, err := latch.New(c, w.name).Count(ctx)
		s := w.sight(nil, 0, -1)
		s.left = left
		return s, err
	case "election":
		leader, err := election.New(c, w.name).Leader(ctx)
		if errors.Is(err, election.ErrNoLeader) {
			return w.sight(nil, 0, -1), nil // it resigned a moment ago
		}
		s := w.sight([]holdfast.Holder{{Owner: leader.Owner, Count: 1, Remaining: leader.Remaining}}, leader.Token, -1)
		s.leader = leader.Value
		if queue, failed := fairlock.New(c, w.name).State(ctx); failed == nil { // candidates wait as for a fair lock
			s.waiters = queue.Waiters
		}
		return s, err
	}
	// The look at a fair lock serves the plain one too, whose hash is the same and whose queue is empty.
	state, err := fairlock.New(c, w.name).State(ctx)
	if kind == "" && (state.Owner != "" || lua.IsError(err, "WRONGTYPE")) { // it was made between two commands, and has a kind now
		return w.lookAtKind(ctx)
	}
	if err != nil {
		return nil, err
	}
	if state.Owner != "" && !ownerForm.MatchString(state.Owner) {
		return nil, w.foreign("a hash with the field " + printable.Quote(state.Owner))
	}
	return w.seen(w.kind, state).honest(), nil
}

func (w *watcher) seen(kind string, state holdfast.State) *sight {
	w.kind = kind
	var holders []holdfast.Holder
	if state.Owner != "" {
		holders = []holdfast.Holder{{Owner: state.Owner, Count: state.Count, Remaining: state.Remaining}}
	}
	return w.sight(holders, state.Token, state.Waiters)
}

func (w *watcher) sight(holders []holdfast.Holder, token uint64, waiters int) *sight {
	slices.SortFunc(holders, func(a, b holdfast.Holder) int { return strings.Compare(a.Owner, b.Owner) })
	return &sight{at: time.Now(), kind: w.kind, holders: holders, token: token, waiters: waiters}
}

// honest takes no waiters for not known where a client of this library has the lock: its own callers wait behind it within
// the process, and Redis does not know of them.
func (s *sight) honest() *sight {
	ours := func(h holdfast.Holder) bool { return !remote.IsForeign(h.Owner) }
	if s.waiters == 0 && slices.ContainsFunc(s.holders, ours) {
		s.waiters = -1
	}
	return s
}

// kindOf looks at the key, and at what only some kinds have beside it. "" is that there is none.
func (w *watcher) kindOf(ctx context.Context) (string, error) {
	permits, lock := keys.ForPermits(w.name), keys.For(w.name)
	said, _ := keys.Election(w.name)
	pipe := w.rdbs[0].Pipeline()
	kind := pipe.Type(ctx, w.name)
	mode := pipe.HExists(ctx, w.name, "mode")
	leads := pipe.Exists(ctx, said)
	handsOut := pipe.Exists(ctx, permits.Ends, permits.Queue, permits.Places, lock.Token)
	if _, err := pipe.Exec(ctx); kind.Err() != nil || kind.Val() == "" { // the others may complain of the type
		return "", cmp.Or(kind.Err(), err)
	}
	switch kind.Val() {
	case "none":
		return "", nil
	case "hash":
		switch {
		case mode.Val():
			return "rwlock", nil
		case leads.Val() > 0:
			return "election", nil
		}
		return "rlock", nil
	case "string":
		if handsOut.Val() > 0 {
			return "semaphore", nil
		}
		if w.kind == "semaphore" { // what only it has may be gone between two commands
			return "semaphore", nil
		}
		return "latch", nil
	}
	return "", w.foreign("a " + kind.Val())
}

func (w *watcher) foreign(what string) error {
	return fail(exitHoldfast, "%s is %s, not a lock; give the name of a lock, which is its key in Redis", printable.Quote(w.name), what)
}

// listen subscribes to all that is announced of a lock by this name, of whatever kind. Without the
// permission for it, looks have to do. stop joins its goroutines.
func (w *watcher) listen(ctx context.Context, wake chan<- struct{}) (stop func()) {
	latches := keys.ForLatch(w.name)
	_, elected := keys.Election(w.name)
	channels := []string{
		keys.For(w.name).Channel, keys.ForReadWrite(w.name).Channel, keys.ForPermits(w.name).Channel, elected,
	}
	var ends []func()
	for _, rdb := range w.rdbs {
		sub, sharded, err := subscribe(ctx, rdb, append(slices.Clone(channels), latches.Channel),
			append(slices.Clone(channels), latches.Sharded))
		if err != nil {
			warn(w.stderr, "cannot listen for releases, and looks every %v: %v", w.every.Duration, err)
			continue
		}
		w.counted = sharded
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range sub.Channel() {
				select {
				case wake <- struct{}{}:
				default:
				}
			}
		}()
		ends = append(ends, func() {
			_ = sub.Close() // which ends the loop
			<-done
		})
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

var globEscape = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// subscribe returns when the server has confirmed the first channel, or refused.
func subscribe(ctx context.Context, rdb redis.UniversalClient, classic, sharded []string) (_ *redis.PubSub,
	isSharded bool, _ error) {
	if _, many := rdb.(*redis.ClusterClient); many {
		sub := rdb.SSubscribe(ctx, sharded...)
		_, err := sub.ReceiveTimeout(ctx, answerWithin)
		if err == nil {
			return sub, true, nil
		}
		_ = sub.Close()
		if !strings.Contains(err.Error(), "unknown command") { // before Redis 7 there is the other only
			return nil, false, err
		}
	}
	// By patterns: clients that hold a lock ask how many listen to its channel, to learn whether others
	// want it, and patterns are not counted. Sharded channels have none.
	for i, channel := range classic {
		classic[i] = globEscape.Replace(channel)
	}
	sub := rdb.PSubscribe(ctx, classic...)
	if _, err := sub.ReceiveTimeout(ctx, answerWithin); err != nil {
		_ = sub.Close()
		return nil, false, err
	}
	return sub, false, nil
}
