// Package election makes one of many candidates the leader, on Redis: one at a time, across all
// processes and machines.
//
//	err := election.New(client, "billing").Run(ctx, "10.0.0.7:8080", func(ctx context.Context) error {
//		return bill(ctx) // ends when the leadership does
//	})
//
// A leadership is a hold of a fair lock, with all that follows from that. The comment of package
// holdfast says what every lock promises. In addition:
//
//   - One leader. The context under which a leader works ends before anybody else may lead.
//     [Election.Run] waits for the function to return before it resigns or campaigns again. So two
//     calls of one Run are never under way at the same time.
//   - A leader learns of its loss. Its context ends as soon as Redis reports the loss, which is at
//     the next renewal at the latest. If Redis is silent, the local clock ends it.
//   - Candidates keep their turn. A candidate renews its place in the queue by a poll, once a
//     second or once in five, and takes a new place if the server has lost it. So nobody waits for
//     ever.
//   - Candidates lead in the order in which they came, as package fairlock serves waiters. When a
//     leader resigns, the server hands the leadership to the first candidate in the same step, and
//     tells it by a message. The candidate leads when it has announced itself, a round trip later.
//     When a leader dies, the first candidate leads after the leader's lease has ended. It polls at
//     that moment.
//   - Observers learn of every change that lasts. They get messages, and ask the server once more
//     after each subscription, so also after an interruption. No message says that a lease has
//     ended, so observers ask again when the leader's lease would have ended. While nobody leads,
//     they ask once in a lease of their client ([holdfast.Options.Lease]), because a message may be
//     lost even on a working connection, as on the bus of a cluster. Without such a connection they
//     ask once a second. They send no other polls.
//
// # What a leader says of itself
//
// For others a leader begins to lead when its value and its fencing token are in Redis. That is
// when Campaign returns. The script that writes the value checks that the leader still holds the
// lock, and that no later leader has written its own. So a late announcement of an old leader never
// replaces that of a new one. If a leader cannot announce itself within
// [holdfast.Options.RetryBudget], it resigns, and Campaign returns the error.
//
// Until a leader has announced itself, nobody leads, although the lock is taken.
//
// # In Redis
//
// The name is the key of a lock. An election has the keys of a fair lock, the key
// holdfast_election:{name} with the announcement, and the channel
// holdfast_election__channel:{name}. The announcement lives as long as the token's key: an hour or
// two leases after the last renewal. Each renewal carries the announcement. It writes it again if
// Redis has lost it but not the lock, as in a failover. Do not use the name for a lock of another
// kind.
//
// # Not promised
//
//   - That a function that ignores its context has stopped when another process leads. Nothing
//     built on leases can promise that. The fencing token, [Leader.Token], protects from it if the
//     resource checks the token; package fence has guards.
//   - That observers see every leader. They may miss one that leads for less than a round trip. A
//     slow observer sees who leads when it asks.
//   - How long a candidate that is out of reach delays the others: see package fairlock. A
//     candidate whose process died in the queue costs up to two seconds when its turn comes.
//   - That a leadership passes between goroutines of a process without Redis. Each campaign is a
//     candidate of its own, and none is preferred.
package election

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/operr"
)

// ErrNoLeader says that nobody leads at this moment.
var ErrNoLeader = errors.New("nobody leads")

var ops = operr.Kind{Name: kindName, New: "Election; make one with election.New"}

// Election is an election by name. Any number of Elections, in any number of processes, with one
// name on one Redis are the same election. Make one with [New]; it holds no resources and needs no
// closing. All methods are safe for concurrent use.
type Election struct {
	base   *engine.Lock
	wire   *protocol
	leader atomic.Pointer[term] // the last that was won through this Election; nil: none
}

// Leader is the leader as the server sees it at one moment. The zero Leader means that nobody leads.
type Leader struct {
	Value string // the value of its campaign
	Owner string // "<client uuid>:h<number>", as [holdfast.Hold.Owner]
	Token uint64 // its fencing token, greater than that of every leader before
	// Remaining is how much was left of its lease. A living leader renews the lease, so it may lead for
	// longer. Remaining is negative if the lock has no time to live, which only something foreign can cause.
	Remaining time.Duration
}

// New makes the election called name on a client. opts are defaults for each campaign. New sends
// nothing. For an invalid name, option or client, the first operation returns the error.
//
// [holdfast.Lease] is how long a dead leader delays the next one. [holdfast.HoldAtLeast] and
// [rlock.Keep] are refused: a leader that resigns lets the next one lead at once.
//
// The name is the key in Redis. If it contains a brace it must contain a hash tag, as in
// "billing:{42}". With the prefix of [holdfast.Options] it has at most 1024 bytes.
func New(c *holdfast.Client, name string, opts ...holdfast.Option) *Election {
	client := (*engine.Client)(c)
	p := newProtocol(client.InRedis(name))
	return &Election{base: newLock(client, p, opts), wire: p}
}

// Name is the name of the election in Redis.
func (e *Election) Name() string {
	if e == nil || e.base == nil {
		return ""
	}
	return e.base.Name()
}

// Leader asks the server who leads, in one round trip.
//
// Errors:
//   - [ErrNoLeader] if nobody leads;
//   - [holdfast.ErrUnavailable] if Redis did not answer;
//   - [holdfast.ErrClosed] if the client was closed;
//   - [holdfast.ErrInvalid] for a bad argument;
//   - otherwise an error of Redis.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	if err := e.check("leader"); err != nil {
		return Leader{}, err
	}
	l, err := e.ask(ctx)
	if err == nil && l == (Leader{}) {
		err = ErrNoLeader
	}
	return l, e.fail("leader", err)
}

// IsLeader reports whether a campaign of this Election has won and still leads, by the clock of this
// process: whether [holdfast.Hold.Deadline] of its hold lies ahead. IsLeader sends nothing. It is true
// until the leader has resigned, even if the context of its campaign has ended.
func (e *Election) IsLeader() bool {
	if e == nil {
		return false
	}
	t := e.leader.Load()
	return t != nil && t.leads()
}

// check returns an error for a zero or nil Election, so that its methods do not panic.
func (e *Election) check(op string) error { return ops.Check(op, e != nil && e.base != nil) }

// fail wraps the error of an operation in a [holdfast.Error]. It returns nil for nil.
func (e *Election) fail(op string, err error) error { return ops.Fail(op, e.Name(), err) }

// invalid is an [holdfast.ErrInvalid] of an operation.
func (e *Election) invalid(op, format string, args ...any) error {
	return e.fail(op, errs.Invalid(format, args...))
}
