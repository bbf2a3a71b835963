package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/deadlock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/pipeline"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// circles says in Redis what the client's long waits are, of callers that have other locks, and looks
// for circles of which one of them is part: see package deadlock. It reads what the clients say that
// are in the way of these waits, what those say that are in the way of theirs, and so on. All that is sent
// is one text of its own and, in a few pipelines, one question for each of a bounded number of clients.
type circles struct {
	looks   uint64 // so far
	number  uint64 // of the last text that Redis has confirmed
	written bool   // a text may be in Redis
	failed  bool   // that was logged
	watch   deadlock.Watch
}

const (
	// mostAsked is how many clients are asked in a look.
	mostAsked = 64
	// saidFor is for how many looks a text stands without a word.
	saidFor = 4
	// leastSaid bounds that from below, for very short waits and slow machines.
	leastSaid = 2 * time.Second
)

func (k *circles) look(l *lookout, long []longWait) {
	k.looks++
	own, waits := l.said(long)
	if len(own.Waits) == 0 {
		k.withdraw(l)
		k.watch.See(nil)
		return
	}
	k.say(l, own)
	mine := *own // what this client knows of itself does not depend on Redis
	mine.Number = k.looks
	all, err := l.hear(&mine)
	if err != nil {
		k.complain(l, err)
		return // what was seen before is neither confirmed nor refuted
	}
	for _, c := range k.watch.See(deadlock.NewGraph(all...).Circles(own.Client)) {
		l.tellDeadlock(c, waits[c[0].Wait.ID])
	}
}

// said is what the client has to say of its long waits.
func (l *lookout) said(long []longWait) (*deadlock.Said, map[uint64]longWait) {
	c := l.client
	s := &deadlock.Said{Client: c.id, Label: c.opts.Label, Number: l.circles.number + 1, EveryMS: l.every.Milliseconds()}
	waits := make(map[uint64]longWait)
	for _, w := range long {
		if len(w.under) == 0 || w.g.base.traits.NoReentry || len(s.Waits) == deadlock.MostWaits {
			continue
		}
		by, _ := w.g.inTheWay()
		w.g.mu.Lock()
		owner := w.g.id
		w.g.mu.Unlock()
		wait := deadlock.Wait{Lock: lockOf(w.g.base), ID: w.number, Owner: owner, By: by, MS: w.waited.Milliseconds()}
		for _, u := range w.under {
			if u.base.traits.NoReentry {
				continue
			}
			u.mu.Lock()
			wait.Holds = append(wait.Holds, deadlock.Hold{Lock: lockOf(u.base), Owner: u.id, Token: u.token})
			u.mu.Unlock()
		}
		if len(wait.Holds) > 0 {
			s.Waits = append(s.Waits, wait)
			waits[w.number] = w
		}
	}
	return s, waits
}

func lockOf(b *Lock) deadlock.Lock {
	l := deadlock.Lock{Kind: b.Key.Kind, Name: b.Key.Name, Reading: b.Key.Side == kind.Reading}
	if b.traits.Several {
		l.Several = len(b.beside) + 1
	}
	return l
}

// say writes the text.
func (k *circles) say(l *lookout, s *deadlock.Said) {
	ctx, cancel := l.ask()
	defer cancel()
	k.written = true
	err := l.client.rdb.Set(ctx, keys.Waits(s.Client), s.Text(), max(saidFor*l.every, leastSaid)).Err()
	if err != nil {
		k.complain(l, err)
		return
	}
	k.number = s.Number
}

// withdraw deletes it.
func (k *circles) withdraw(l *lookout) {
	if !k.written {
		return
	}
	k.written = false
	ctx, cancel := context.WithTimeoutCause(context.Background(), l.client.session.Budget(), remote.ErrBudget)
	defer cancel()
	_ = l.client.rdb.Del(ctx, keys.Waits(l.client.id)).Err() // it ends by itself
}

// complain logs once that Redis refuses.
func (k *circles) complain(l *lookout, err error) {
	if k.failed || l.client.ctx.Err() != nil {
		return
	}
	k.failed = true
	l.log().Warn("who waits for whom could not be written or read; circles of waits may not be seen", "key", keys.Waits(l.client.id), "error", err)
}

// hear reads what other clients say that are in the way, beginning with those in the way of our own waits.
func (l *lookout) hear(own *deadlock.Said) (all []*deadlock.Said, err error) {
	all = []*deadlock.Said{own}
	asked := map[string]bool{own.Client: true}
	for fresh := all; len(fresh) > 0 && len(asked) < mostAsked; {
		var clients []string
		for _, s := range fresh {
			for _, w := range s.Waits {
				if client := remote.ClientIn(w.By); client != "" && !asked[client] && len(asked) < mostAsked {
					asked[client] = true
					clients = append(clients, client)
				}
			}
		}
		if fresh, err = l.read(clients); err != nil {
			return nil, err
		}
		all = append(all, fresh...)
	}
	slices.SortFunc(all, func(a, b *deadlock.Said) int { return strings.Compare(a.Client, b.Client) })
	return all, nil
}

// read reads texts, of those who have written any.
func (l *lookout) read(clients []string) (list []*deadlock.Said, err error) {
	if len(clients) == 0 {
		return nil, nil
	}
	ctx, cancel := l.ask()
	defer cancel()
	pipe, cmds := l.client.rdb.Pipeline(), make([]*redis.StringCmd, len(clients))
	for i, client := range clients {
		cmds[i] = pipe.Get(ctx, keys.Waits(client))
	}
	pipeline.Exec(ctx, pipe) // each command keeps its own error
	for i, cmd := range cmds {
		text, err := cmd.Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if s, err := deadlock.Parse(text); err == nil && s.Client == clients[i] { // else it is of a later version
			list = append(list, s)
		}
	}
	return list, nil
}

// tellDeadlock tells of a circle that is certain.
func (l *lookout) tellDeadlock(c deadlock.Circle, w longWait) {
	if w.g == nil || !l.client.waits.stands(w.old) {
		return
	}
	e := notify.DeadlockEvent{Kind: c[0].Wait.Kind, Name: c[0].Wait.Name, Waited: c[0].Wait.Waited(), Where: w.where.String()}
	for _, s := range c {
		e.Circle = append(e.Circle, notify.DeadlockedWait{
			Client: s.Said.Client, Label: s.Said.Label, Kind: s.Wait.Kind, Name: s.Wait.Name, Waited: s.Wait.Waited(),
			Has: s.Has.Name, Owner: s.Has.Owner, Token: s.Has.Token,
		})
	}
	l.log().Error("deadlock: none of these waits ends by itself, unless it has a limit", "kind", e.Kind, "name", e.Name, "waited", e.Waited,
		"waiting at", orElse(e.Where, "not noted"), "circle", c.Text())
	l.client.observer.TellDeadlocked(e)
}
