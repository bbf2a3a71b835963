package waitwatch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/deadlock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/remote"
)

// deadlocks publishes in Redis the long waits of the client's callers that hold other locks, and finds the circles that
// contain one of these waits: see package deadlock. It reads the texts of the clients that block these waits, then of
// the clients that block those, and so on. It sends one text of its own and, in a few pipelines, one read for each of a
// bounded number of clients.
type deadlocks struct {
	checks    uint64 // so far
	number    uint64 // of the last text that Redis has confirmed
	published bool   // a text may be in Redis
	failed    bool   // the failure was logged
	watch     deadlock.Watch
}

const (
	// mostAsked is how many clients a check asks for at most.
	mostAsked = 64
	// publishedFor is for how many checks a text lasts in Redis.
	publishedFor = 4
	// leastPublished is the shortest time that a text lasts, for very short waits and slow machines.
	leastPublished = 2 * time.Second
)

func (d *deadlocks) check(l *waitChecker, long []longWait) {
	d.checks++
	own, waits := d.ownText(l, long)
	if len(own.Waits) == 0 {
		d.withdraw(l)
		d.watch = deadlock.Watch{}
		return
	}
	d.watch.Forget(func(wait uint64) bool {
		_, lasts := waits[wait]
		return lasts
	})
	d.publish(l, own)
	mine := *own // what this client knows of itself does not depend on Redis
	mine.Number = d.checks
	all, err := l.readBlockers(&mine)
	if err != nil {
		d.logOnce(l, err)
		return // what was seen before is neither confirmed nor refuted
	}
	for _, c := range d.watch.See(deadlock.NewGraph(all...).Circles(own.Client)) {
		l.reportDeadlock(c, waits[c[0].Wait.ID])
	}
}

// ownText is the text in which the client publishes its long waits.
func (d *deadlocks) ownText(l *waitChecker, long []longWait) (*deadlock.Published, map[uint64]longWait) {
	cfg := &l.watch.cfg
	s := &deadlock.Published{Client: cfg.Client, Label: cfg.Label, Number: d.number + 1, EveryMS: l.every.Milliseconds()}
	waits := make(map[uint64]longWait)
	for _, w := range long {
		if len(w.under) == 0 || w.lock.NoReentry || len(s.Waits) == deadlock.MostWaits {
			continue
		}
		by, _ := w.of.InTheWay()
		owner, _ := w.of.Identity()
		wait := deadlock.Wait{Lock: w.lock.text(), ID: w.number, Owner: owner, By: by, MS: w.waited.Milliseconds()}
		for _, u := range w.under {
			lock := u.Lock()
			if lock.NoReentry {
				continue
			}
			owner, token := u.Identity()
			wait.Holds = append(wait.Holds, deadlock.Hold{Lock: lock.text(), Owner: owner, Token: token})
		}
		if len(wait.Holds) > 0 {
			s.Waits = append(s.Waits, wait)
			waits[w.number] = w
		}
	}
	return s, waits
}

// isRead reports whether this is the readers' side of a lock.
func (l Lock) isRead() bool { return l.Side == kind.Reading }

// text is the lock as published.
func (l Lock) text() deadlock.Lock {
	return deadlock.Lock{Kind: l.Kind, Name: l.Name, Reading: l.isRead(), Several: l.Masters}
}

func (d *deadlocks) publish(l *waitChecker, s *deadlock.Published) {
	d.published = true
	cfg := &l.watch.cfg
	err := cfg.sendOne(cfg.Life, func(ctx context.Context, pipe redis.Pipeliner) redis.Cmder {
		return pipe.Set(ctx, keys.Waits(s.Client), s.Text(), max(publishedFor*l.every, leastPublished))
	})
	if err != nil {
		d.logOnce(l, err)
		return
	}
	d.number = s.Number
}

// withdraw deletes the text.
func (d *deadlocks) withdraw(l *waitChecker) {
	if !d.published {
		return
	}
	d.published = false
	cfg := &l.watch.cfg
	_ = cfg.sendOne(context.Background(), func(ctx context.Context, pipe redis.Pipeliner) redis.Cmder {
		return pipe.Del(ctx, keys.Waits(cfg.Client))
	}) // the key expires by itself
}

// logOnce logs once that Redis refuses.
func (d *deadlocks) logOnce(l *waitChecker, err error) {
	cfg := &l.watch.cfg
	if d.failed || cfg.Life.Err() != nil {
		return
	}
	d.failed = true
	l.log().Warn("waits could not be published or read; deadlocks may not be found", "key", keys.Waits(cfg.Client), "error", err)
}

// readBlockers reads the texts of the clients that block others, beginning with those that block our own waits.
func (l *waitChecker) readBlockers(own *deadlock.Published) (all []*deadlock.Published, err error) {
	all = []*deadlock.Published{own}
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
	slices.SortFunc(all, func(a, b *deadlock.Published) int { return strings.Compare(a.Client, b.Client) })
	return all, nil
}

// read reads the texts of clients that have published one.
func (l *waitChecker) read(clients []string) (list []*deadlock.Published, err error) {
	if len(clients) == 0 {
		return nil, nil
	}
	cmds := make([]*redis.StringCmd, len(clients))
	err = l.watch.cfg.send(l.watch.cfg.Life, func(ctx context.Context, pipe redis.Pipeliner) {
		for i, client := range clients {
			cmds[i] = pipe.Get(ctx, keys.Waits(client))
		}
	})
	if err != nil {
		return nil, err
	}
	for i, cmd := range cmds {
		text, err := cmd.Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if s, err := deadlock.Parse(text); err == nil && s.Client == clients[i] { // otherwise a later version wrote it
			list = append(list, s)
		}
	}
	return list, nil
}

// reportDeadlock reports a circle that is certain.
func (l *waitChecker) reportDeadlock(c deadlock.Circle, w longWait) {
	if w.of == nil || !l.watch.entries.lasts(w.seen) {
		return
	}
	e := event.Deadlock{Kind: c[0].Wait.Kind, Name: c[0].Wait.Name, Waited: c[0].Wait.Waited(), Where: w.Site()}
	for _, s := range c {
		e.Circle = append(e.Circle, event.DeadlockedWait{
			Client: s.Published.Client, Label: s.Published.Label, Kind: s.Wait.Kind, Name: s.Wait.Name, Waited: s.Wait.Waited(),
			Has: s.Has.Name, Owner: s.Has.Owner, Token: s.Has.Token,
		})
	}
	l.log().Error("deadlock: none of these waits ends by itself, unless it has a limit", "kind", e.Kind, "name", e.Name, "waited", e.Waited,
		"waiting at", cmp.Or(e.Where, siteUnknown), "circle", c.Text())
	l.watch.cfg.Observer.TellDeadlocked(e)
}
