package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// patience is how long a step of a lock's life, or a message, may take.
const patience = 3 * time.Second

// life lives a lock's whole life on a name that nobody has: granted, entered again, renewed, looked at,
// refused to another client and granted to it, given back. Whether messages arrive is for [messages]:
// nobody is seen to sleep here.
func life(ctx context.Context, p *patient) []Finding {
	if err := p.rdb.Del(ctx, p.probe).Err(); err != nil {
		return []Finding{{
			Level: Unknown, Found: fmt.Sprintf("no lock was tried, as its token could not be deleted: %v", err),
			Means: "whether scripts work is not known", Remedy: remedy(err, "give this user +del, which Unlock needs too"),
		}}
	}
	defer p.erase(ctx)
	began := time.Now()
	if step, err := p.live(ctx); err != nil {
		return []Finding{{
			Level: Error, Found: fmt.Sprintf("a lock could not %s: %v", step, err), Means: "locks do not work here",
			Remedy: remedy(err, "see the permissions, which name what is refused"),
		}}
	}
	return ok("a lock was granted, entered again, renewed, refused to another client, granted to it, and released, in %s",
		brief(time.Since(began)))
}

// refusals are the servers' words for what is no matter of permissions, and what to do about each.
var refusals = []struct{ says, remedy string }{
	{"READONLY", "name the master in the address, or have it found by redis+sentinel:// or redis+cluster://: this is a replica"},
	{"MASTERDOWN", "name the master in the address: this is a replica, and has lost its master"},
	{"NOREPLICAS", "bring the replicas back, or lower min-replicas-to-write: the server takes no writes while fewer replicas follow it"},
	{"OOM", "raise maxmemory, or delete what nobody needs: the server is full, and evicts nothing"},
	{"MISCONF", "see the server's log; the disk may be full: it takes no writes while it cannot save"},
	{"LOADING", "wait: the server is reading its data"},
	{"CLUSTERDOWN", "see CLUSTER NODES for masters that are down"},
	{"BUSY", "see what script is running, SCRIPT KILL ends it"},
}

// remedy is what to do about an error: permission is for one that says that one is missing.
func remedy(err error, permission string) string {
	for _, r := range refusals {
		if lua.IsError(err, r.says) {
			return r.remedy
		}
	}
	if lua.IsDenied(err) {
		return permission
	}
	return "a proxy or a service may not let scripts or subscriptions through, and the server's log may say more"
}

// erase deletes what a lock's life leaves: its token, which would have ended by itself an hour later.
func (p *patient) erase(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	k := keys.For(p.probe)
	_ = p.rdb.Del(ctx, k.Name, k.Token, k.Channel).Err()
}

// silent are the options of its clients: what goes wrong is in its findings, and they try what locks need.
var silent = &holdfast.Options{Logger: slog.New(slog.DiscardHandler), Label: holdfast.NoLabel}

// live names the step that failed.
func (p *patient) live(ctx context.Context) (step string, err error) {
	first, err := holdfast.New(p.rdb, silent)
	if err != nil {
		return "be made", err
	}
	defer leave(ctx, first)
	second, err := holdfast.New(p.rdb, silent)
	if err != nil {
		return "be made", err
	}
	defer leave(ctx, second)
	mutex, other := rlock.New(first, p.probe), rlock.New(second, p.probe)
	once := []holdfast.Option{holdfast.Wait(patience), holdfast.Lease(2 * patience)}
	hold, err := mutex.Lock(ctx, once...)
	if err != nil {
		return "be granted", err
	}
	defer func() { _ = hold.Unlock(context.WithoutCancel(ctx)) }() // harmless if it was unlocked before
	again, err := mutex.Lock(hold.Context(), once...)
	if err != nil {
		return "be entered again", err
	}
	if err := again.Unlock(ctx); err != nil {
		return "be left once", err
	}
	if err := hold.Extend(ctx, 3*patience); err != nil {
		return "be renewed", err
	}
	if state, err := mutex.State(ctx); err != nil {
		return "be looked at", err
	} else if state.Owner != hold.Owner() {
		return "be kept", fmt.Errorf("its owner is %q, and was to be %q", state.Owner, hold.Owner())
	}
	if stolen, err := other.TryLock(ctx); !errors.Is(err, holdfast.ErrNotAcquired) {
		if stolen != nil {
			_ = stolen.Unlock(ctx)
		}
		return "keep another out", fmt.Errorf("it was told: %w", cmp.Or(err, errors.New("granted")))
	}
	return p.handOver(ctx, hold, other, once)
}

// handOver lets one wait, and releases. Whoever hears no message sleeps until the lease ends, which is
// later than it waits.
func (p *patient) handOver(ctx context.Context, hold *holdfast.Hold, other *rlock.Mutex,
	opts []holdfast.Option) (string, error) {
	done := make(chan error, 1)
	go func() {
		next, err := other.Lock(ctx, opts...)
		if err == nil {
			err = next.Unlock(ctx)
		}
		done <- err
	}()
	released := hold.Unlock(ctx)
	waited := <-done
	switch {
	case released != nil:
		return "be released", released
	case waited != nil:
		return "be waited for", waited
	}
	return "", nil
}

func leave(ctx context.Context, c *holdfast.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_ = c.Close(ctx) // it can only be late in undoing what the lease ends too
}

// messages publishes to itself: who waits is woken by a message, and sleeps until the lease ends
// without one.
func messages(ctx context.Context, p *patient) []Finding {
	channel := keys.For(p.probe).Channel
	subscribe, publish := p.rdb.Subscribe, p.rdb.Publish
	if sharded(p) {
		subscribe, publish = p.rdb.SSubscribe, p.rdb.SPublish
	}
	listen := subscribe(ctx, channel)
	defer listen.Close()
	if err := heard(ctx, listen, patience, func(m any) bool {
		_,
			yes := m.(*redis.Subscription)
		return yes
	}); err != nil {
		return unheard(fmt.Sprintf("a subscription was not confirmed: %v", err),
			remedy(err, "give this user +subscribe or +ssubscribe, and the channels of docs/security.md"))
	}
	text := rand.Text()
	if err := publish(ctx, channel, text).Err(); err != nil {
		return unheard(fmt.Sprintf("a message could not be published: %v", err),
			remedy(err, "give this user +publish or +spublish, and the channels of docs/security.md"))
	}
	err := heard(ctx, listen, p.patience, func(m any) bool {
		msg,
			yes := m.(*redis.Message)
		return yes && msg.Payload == text
	})
	if err != nil {
		return unheard(fmt.Sprintf("a message to oneself did not arrive: %v", err),
			"let messages through: a proxy, or a service of several servers behind one address, may drop them")
	}
	return ok("a message to oneself arrived")
}

func unheard(found, remedy string) []Finding {
	return []Finding{{
		Level: Error, Found: found,
		Means:  "waiters are not woken when a lock is free, and sleep until the lease that they know of ends",
		Remedy: remedy,
	}}
}

// heard waits for what is looked for, and for no longer than the limit.
func heard(ctx context.Context, listen *redis.PubSub, limit time.Duration, want func(any) bool) error {
	until := time.Now().Add(limit)
	for {
		left := time.Until(until)
		if left <= 0 {
			return fmt.Errorf("nothing for %v", limit)
		}
		m, err := listen.ReceiveTimeout(ctx, left)
		var late net.Error
		switch {
		case err == nil && want(m):
			return nil
		case errors.As(err, &late) && late.Timeout():
		case err != nil:
			return err
		}
	}
}

// denied counts what was refused to anybody since the server started.
func denied(_ context.Context, p *patient) []Finding {
	stats := p.infos["stats"]
	commands, known := stats.number("acl_access_denied_cmd") // since 7.2
	if !known {
		return nil
	}
	onKeys, _ := stats.number("acl_access_denied_key")
	onChannels, _ := stats.number("acl_access_denied_channel")
	if commands+onKeys+onChannels == 0 {
		return nil
	}
	return []Finding{{
		Level: Note,
		Found: fmt.Sprintf("refused since the server started, to whomever: %d commands, %d on keys, %d on channels",
			commands, onKeys, onChannels),
		Means:  "some user may lack a permission; those that were tried here count only from the next look on",
		Remedy: "ACL LOG says to whom, and what",
	}}
}
