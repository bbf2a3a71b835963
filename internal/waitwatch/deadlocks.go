package waitwatch

import (
	"cmp"
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

// deadlocks publishes in Redis the client's long waits, of callers that hold other locks, and looks
// for circles of which one of them is part: see package deadlock. It reads what the clients publish that
// are in the way of these waits, what those publish that are in the way of theirs, and so on. All that is sent
// is one text of its own and, in a few pipelines, one question for each of a bounded number of clients.
type deadlocks struct {
	looks     uint64 // so far
	number    uint64 // of the last text that Redis has confirmed
	published bool   // a text may be in Redis
	failed    bool   // that was logged
	watch     deadlock.Watch
}

const (
	// mostAsked is how many clients are asked in a look.
	mostAsked = 64
	// publishedFor is for how many looks a text lasts in Redis.
	publishedFor = 4
	// leastPublished bounds that from below, for very short waits and slow machines.
	leastPublished = 2 * time.Second
)

func (d *deadlocks) look(l *looker, long []longWait) {
	d.looks++
	own, waits := d.ownText(l, long)
	if len(own.Waits) == 0 {
		d.withdraw(l)
		d.watch.See(nil)
		return
	}
	d.publish(l, own)
	mine := *own // what this client knows of itself does not depend on Redis
	mine.Number = d.looks
	all, err := l.gather(&mine)
	if err != nil {
		d.complain(l, err)
		return // what was seen before is neither confirmed nor refuted
	}
	for _, c := range d.watch.See(deadlock.NewGraph(all...).Circles(own.Client)) {
		l.reportDeadlock(c, waits[c[0].Wait.ID])
	}
}

// ownText is what the client publishes of its long waits.
func (d *deadlocks) ownText(l *looker, long []longWait) (*deadlock.Said, map[uint64]longWait) {
	cfg := &l.watch.cfg
	s := &deadlock.Said{Client: cfg.Client, Label: cfg.Label, Number: d.number + 1, EveryMS: l.every.Milliseconds()}
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

// isRead reports whether it is the readers' side of a lock.
func (l Lock) isRead() bool { return l.Side == kind.Reading }

// text is the lock as it is published.
func (l Lock) text() deadlock.Lock {
	return deadlock.Lock{Kind: l.Kind, Name: l.Name, Reading: l.isRead(), Several: l.Masters}
}

func (d *deadlocks) publish(l *looker, s *deadlock.Said) {
	ctx, cancel := l.bounded()
	defer cancel()
	d.published = true
	err := l.watch.cfg.Redis.Set(ctx, keys.Waits(s.Client), s.Text(), max(publishedFor*l.every, leastPublished)).Err()
	if err != nil {
		d.complain(l, err)
		return
	}
	d.number = s.Number
}

// withdraw deletes the text.
func (d *deadlocks) withdraw(l *looker) {
	if !d.published {
		return
	}
	d.published = false
	cfg := &l.watch.cfg
	ctx, cancel := context.WithTimeoutCause(context.Background(), cfg.Budget(), remote.ErrBudget)
	defer cancel()
	_ = cfg.Redis.Del(ctx, keys.Waits(cfg.Client)).Err() // it ends by itself
}

// complain logs once that Redis refuses.
func (d *deadlocks) complain(l *looker, err error) {
	cfg := &l.watch.cfg
	if d.failed || cfg.Life.Err() != nil {
		return
	}
	d.failed = true
	l.log().Warn("who waits for whom could not be written or read; circles of waits may not be seen", "key", keys.Waits(cfg.Client), "error", err)
}

// gather reads what other clients publish that are in the way, beginning with those in the way of our own waits.
func (l *looker) gather(own *deadlock.Said) (all []*deadlock.Said, err error) {
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

// read reads the texts of clients, as far as they have published any.
func (l *looker) read(clients []string) (list []*deadlock.Said, err error) {
	if len(clients) == 0 {
		return nil, nil
	}
	ctx, cancel := l.bounded()
	defer cancel()
	pipe, cmds := l.watch.cfg.Redis.Pipeline(), make([]*redis.StringCmd, len(clients))
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

// reportDeadlock reports a circle that is certain.
func (l *looker) reportDeadlock(c deadlock.Circle, w longWait) {
	if w.of == nil || !l.watch.entries.lasts(w.seen) {
		return
	}
	e := notify.DeadlockEvent{Kind: c[0].Wait.Kind, Name: c[0].Wait.Name, Waited: c[0].Wait.Waited(), Where: w.Site()}
	for _, s := range c {
		e.Circle = append(e.Circle, notify.DeadlockedWait{
			Client: s.Said.Client, Label: s.Said.Label, Kind: s.Wait.Kind, Name: s.Wait.Name, Waited: s.Wait.Waited(),
			Has: s.Has.Name, Owner: s.Has.Owner, Token: s.Has.Token,
		})
	}
	l.log().Error("deadlock: none of these waits ends by itself, unless it has a limit", "kind", e.Kind, "name", e.Name, "waited", e.Waited,
		"waiting at", cmp.Or(e.Where, siteUnknown), "circle", c.Text())
	l.watch.cfg.Observer.TellDeadlocked(e)
}
