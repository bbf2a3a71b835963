package engine

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/errs"
)

// What a kind that is made of other locks has to know of them. It sees them as users do, so it asks
// them by the one thing that every lock passes on to here, also one that somebody has wrapped: the
// options. (Rejected: a method on the types of the kinds, which users would see.)

// Reveal is the option of a call that asks for nothing: f is told which lock it is, and the call
// fails.
func Reveal(f func(*Lock)) Option {
	return func(c *Settings) { c.reveal = func(lock any) { f(lock.(*Lock)) } } // any: a Lock has Settings
}

// Part is the option of a call that is a part of another one, which began before its context ended. Then
// who leaves is told what is known of the lock, also if nothing was asked.
func Part() Option { return func(c *Settings) { c.part = true } }

// Same reports whether two are one lock, made twice. Two sides of a lock are not the same.
func (b *Lock) Same(other *Lock) bool { return b.Client == other.Client && b.Key == other.Key }

// Shares reports whether two are sides of one lock, or of two kinds under one name: an owner cannot
// hold both.
func (b *Lock) Shares(other *Lock) bool {
	return b.Client == other.Client && b.Key.Name == other.Key.Name && b.Key.Servers == other.Key.Servers
}

// Meets reports whether two of one name are, as far as that is known, at one server: a client's, or one of
// the masters that grant the lock together.
func (b *Lock) Meets(other *Lock) bool {
	for _, one := range append([]*Client{b.Client}, b.beside...) {
		for _, two := range append([]*Client{other.Client}, other.beside...) {
			if at := one.Where(); one == two || at != "" && at == two.Where() {
				return b.Key.Name == other.Key.Name
			}
		}
	}
	return false
}

// Again reports whether an owner can take the lock a second time.
func (b *Lock) Again() bool { return !b.traits.NoReentry }

// Home is the client, if its server alone grants the lock.
func (b *Lock) Home() *Client {
	if b.traits.Several {
		return nil
	}
	return b.Client
}

// Company is the same, if what the client sends can travel together.
func (b *Lock) Company() *Client {
	if home := b.Home(); home != nil && home.server.Gathers() {
		return home
	}
	return nil
}

// Where says where the lock is, in a way that other processes say it too if they reach the servers
// by the same addresses. It is empty if that is not known, as behind Sentinel.
func (b *Lock) Where() string {
	if several, ok := b.backend.(interface{ Where() string }); ok {
		return several.Where()
	}
	return b.Client.Where()
}

// Where is the address of the client's server, with the number of the database.
func (c *Client) Where() string {
	switch r := c.rdb.(type) {
	case *redis.Client:
		if o := r.Options(); o.Addr != behindSentinel {
			return o.Addr + "/" + strconv.Itoa(o.DB)
		}
	case *redis.ClusterClient:
		return strings.Join(slices.Sorted(slices.Values(r.Options().Addrs)), ",")
	}
	return ""
}

// behindSentinel is what go-redis shows for the address of a client that asks Sentinel.
const behindSentinel = "FailoverClient"

// Accepts returns why the lock refuses a call before anything is sent; nil if it does not.
func (b *Lock) Accepts(ctx context.Context, opts []Option) error {
	var cfg Settings
	if err := b.Configure(&cfg, opts); err != nil {
		return err
	}
	return errs.CheckContext(ctx)
}

// EndOf is when a call that begins now has to return, by its context and its options; zero: it may take any time, or
// the servers are asked once.
func (b *Lock) EndOf(ctx context.Context, opts []Option) time.Time {
	end, _ := ctx.Deadline()
	for _, list := range [][]Option{opts, b.defaults} { // the call's count before the lock's
		d, ok := Waits(list)
		if until := time.Now().Add(d); d > 0 && (end.IsZero() || until.Before(end)) {
			return until
		}
		if ok {
			break
		}
	}
	return end
}

// Waits is what [Wait] among some options says; ok is false if they say nothing of it.
func Waits(opts []Option) (d time.Duration, ok bool) {
	var cfg Settings
	for _, opt := range opts {
		if opt != nil {
			opt(&cfg)
		}
	}
	return cfg.wait, cfg.waitSet
}
