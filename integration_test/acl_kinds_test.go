package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

var aclKinds = []*aclKind{&aclOfLock, &aclOfQuorum, &aclOfRW, &aclOfSemaphore, &aclOfLatch, &aclOfElection}

// aclOn is a rule for a single server of that version, which has permissions for channels or not.
func aclOn(srv *redistest.Server, rules ...string) string {
	var words []string
	for word := range strings.FieldsSeq(strings.Join(append(rules, aclSingle), " ")) {
		if srv.Major() >= 7 || !strings.HasPrefix(word, "&") {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

// asks is an operation that returns something beside its error.
func asks[T any](s *aclRun, ask func(context.Context) (T, error)) func() error {
	return func() error {
		_, err := ask(s.ctx)
		return err
	}
}

// oneHolder is a lock with one holder at one or several masters.
type oneHolder struct {
	lock         lock
	state, force func() error
}

// aclOps are the operations of a lock with one holder, mine or the other user's. "renew" is the watchdog's.
func aclOps(of func(s *aclRun, cs []*holdfast.Client) oneHolder, lease time.Duration) []aclOp {
	mine := func(s *aclRun) oneHolder { return of(s, s.mine) }
	return []aclOp{
		{"lock", func(s *aclRun) func() error { return s.gets(mine(s).lock) }},
		{"re-enter", func(s *aclRun) func() error { return s.reenters(mine(s).lock, mine(s).lock) }},
		{"unlock", func(s *aclRun) func() error { return s.unlocks(s.held(mine(s).lock)) }},
		{"extend", func(s *aclRun) func() error { return s.extends(s.held(mine(s).lock)) }},
		{"renew", func(s *aclRun) func() error {
			h := s.held(func(ctx context.Context, _ ...holdfast.Option) (*holdfast.Hold, error) {
				return mine(s).lock(ctx, holdfast.Lease(lease))
			})
			return func() error {
				first := h.Deadline()
				kindtest.Eventually(s.T, "renewed or lost",
					func() bool { return h.Context().Err() != nil || h.Deadline().After(first) })
				return context.Cause(h.Context())
			}
		}},
		{"state", func(s *aclRun) func() error { s.held(mine(s).lock); return mine(s).state }},
		{"force unlock", func(s *aclRun) func() error { s.held(of(s, s.on.others).lock); return mine(s).force }},
		{"wait", func(s *aclRun) func() error { return s.waits(mine(s).lock, of(s, s.on.others).lock) }},
	}
}

var aclOfLock = aclKind{
	name: "rlock", table: "\n| permission | fails without it | what happens without it |\n",
	rule:    func(srv *redistest.Server) string { return aclRule(srv, false) },
	waiting: func(s *aclRun) bool { return s.listens("redisson_lock__channel:{" + s.name + "}") },
	// On a busy machine a client takes the server to be far and asks for a head start, as docs/security.md says in words.
	chance: func(op, word string) (skip, may bool) {
		return false, word == "~redisson_lock__channel:{orders:*" && (op == "lock" || op == "wait")
	},
	ops: aclOps(func(s *aclRun, cs []*holdfast.Client) oneHolder {
		m := rlock.New(cs[0], s.name)
		return oneHolder{m.Lock, asks(s, m.State), asks(s, m.ForceUnlock)}
	}, time.Second),
}

// aclQuorum is what a user of locks that several masters grant needs beside the rule for a single server, at each of them.
const aclQuorum = "+hkeys +info|server"

var aclOfQuorum = aclKind{
	name: "redlock", table: "\n### Quorum locks\n", masters: 3,
	rule:    func(srv *redistest.Server) string { return aclRule(srv, false) + " " + aclQuorum },
	waiting: aclOfLock.waiting,
	// A vote of too few masters cannot be given back without +del: it is chance then whether one gets the lock.
	chance: func(op, word string) (skip, may bool) { return op == "wait" && word == "+del", false },
	ops: aclOps(func(s *aclRun, cs []*holdfast.Client) oneHolder {
		m := redlock.New(cs, s.name, redlock.MasterTimeout(2*time.Second))
		return oneHolder{m.Lock, asks(s, m.State), asks(s, m.ForceUnlock)}
	}, 3*time.Second), // time to hear why, on a busy machine
}

var aclOfRW = aclKind{
	name: "rwlock", table: "\n| `rwlock`: permission | fails without it |\n",
	rule: func(srv *redistest.Server) string {
		return aclOn(srv, aclScripts, aclReadWrite, "~orders:* ~redisson_lock_token:{orders:*", aclReadWriteChannels)
	},
	waiting: func(s *aclRun) bool { return s.listens("redisson_rwlock:{" + s.name + "}") },
	ops: []aclOp{
		{"read", func(s *aclRun) func() error { return s.gets(s.rw(s.me).RLock) }},
		{"write", func(s *aclRun) func() error { return s.gets(s.rw(s.me).Lock) }},
		{"re-enter", func(s *aclRun) func() error { return s.reenters(s.rw(s.me).Lock, s.rw(s.me).Lock) }},
		{"read while writing", func(s *aclRun) func() error { return s.reenters(s.rw(s.me).Lock, s.rw(s.me).RLock) }},
		{"stop reading", func(s *aclRun) func() error { return s.unlocks(s.held(s.rw(s.me).RLock)) }},
		{"stop writing", func(s *aclRun) func() error { return s.unlocks(s.held(s.rw(s.me).Lock)) }},
		{"renew reading", func(s *aclRun) func() error { return s.extends(s.held(s.rw(s.me).RLock)) }},
		{"renew writing", func(s *aclRun) func() error { return s.extends(s.held(s.rw(s.me).Lock)) }},
		{"wait to read", func(s *aclRun) func() error { return s.waits(s.rw(s.me).RLock, s.rw(s.them).Lock) }},
		{"wait to write", func(s *aclRun) func() error { return s.waits(s.rw(s.me).Lock, s.rw(s.them).RLock) }},
		{"read behind a writer", func(s *aclRun) func() error {
			s.behind(s.held(s.rw(s.them).RLock), s.rw(s.them).Lock, func(s *aclRun) bool {
				state, err := s.rw(s.them).State(s.ctx)
				return err == nil && state.Waiters == 1
			})
			return func() error {
				_, err := s.rw(s.me).TryRLock(s.ctx)
				if errors.Is(err, holdfast.ErrNotAcquired) {
					return nil
				}
				return fmt.Errorf("it has to wait: %w", err)
			}
		}},
		{"state", func(s *aclRun) func() error {
			s.held(s.rw(s.them).RLock)
			return asks(s, s.rw(s.me).State)
		}},
		{"force unlock", func(s *aclRun) func() error {
			s.held(s.rw(s.them).Lock)
			return asks(s, s.rw(s.me).ForceUnlock)
		}},
		{"force readers", func(s *aclRun) func() error {
			s.held(s.rw(s.them).RLock)
			return asks(s, s.rw(s.me).ForceUnlock)
		}},
	},
}

func (s *aclRun) rw(c *holdfast.Client) *rwlock.RWMutex { return rwlock.New(c, s.name) }

var aclOfSemaphore = aclKind{
	name: "semaphore", table: "\n| `semaphore`: permission | fails without it |\n",
	rule:    func(srv *redistest.Server) string { return aclOn(srv, aclSemaphore, aclSemaphoreChannels) },
	waiting: (*aclRun).wantsPermits,
	poll:    lua.SemPoll,
	ops: []aclOp{
		{"acquire", func(s *aclRun) func() error { return s.gets(s.permits(s.me, 2)) }},
		{"release", func(s *aclRun) func() error { return s.unlocks(s.held(s.permits(s.me, 2))) }},
		{"renew", func(s *aclRun) func() error { return s.extends(s.held(s.permits(s.me, 2))) }},
		{"wait", func(s *aclRun) func() error { return s.waits(s.permits(s.me, 2), s.permits(s.them, 3)) }},
		{"release to a waiter", func(s *aclRun) func() error {
			h := s.held(s.permits(s.me, 3))
			s.behind(h, s.permits(s.them, 2), (*aclRun).wantsPermits)
			return s.unlocks(h)
		}},
		{"set", func(s *aclRun) func() error {
			s.held(s.permits(s.them, 1))
			return func() error { return s.sem(s.me).SetPermits(s.ctx, 5) }
		}},
		{"state", func(s *aclRun) func() error {
			s.held(s.permits(s.them, 1))
			return asks(s, s.sem(s.me).State)
		}},
	},
	also: func(s *aclRun) { // permits are taken back: of a lease that has ended, and of who did not take what it was handed
		s.name = "orders:swept"
		const dead = "8743c9c0-0795-4907-87fd-6c719a6b4586:h1"
		rdb := s.on.all[0].Client(s.T)
		require.NoError(s, rdb.ZAdd(s.ctx, "holdfast_semaphore_places:{orders:swept}", redis.Z{Member: dead, Score: -1}).Err())
		require.NoError(s, rdb.ZAdd(s.ctx, "{orders:swept}:timeout", redis.Z{Member: dead, Score: 1}).Err())
		require.NoError(s, rdb.Set(s.ctx, s.name, 2, time.Hour).Err())
		require.NoError(s, s.held(s.permits(s.me, 3)).Unlock(s.ctx))
	},
}

// wantsPermits: somebody has a place in the queue of the semaphore.
func (s *aclRun) wantsPermits() bool {
	state, err := s.sem(s.them).State(s.ctx)
	return err == nil && state.Waiters == 1
}

func (s *aclRun) sem(c *holdfast.Client) *semaphore.Semaphore { return semaphore.New(c, s.name, 3) }

func (s *aclRun) permits(c *holdfast.Client, n int) lock {
	return func(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
		return s.sem(c).Acquire(ctx, n, opts...)
	}
}

var aclOfLatch = aclKind{
	name: "latch", table: "\n| `latch`: permission | fails without it |\n",
	rule: func(srv *redistest.Server) string { return aclOn(srv, aclLatch) },
	waiting: func(s *aclRun) bool { // it looks at the latch when it listens
		return s.listens("redisson_countdownlatch__channel__{"+s.name+"}") && s.evaluated() > s.evals
	},
	ops: []aclOp{
		{"set", func(s *aclRun) func() error {
			return func() error { _, err := s.latch(s.me).Set(s.ctx, 2); return err }
		}},
		{"count down", func(s *aclRun) func() error { s.set(2); return asks(s, s.latch(s.me).CountDown) }},
		{"open", func(s *aclRun) func() error { s.set(1); return asks(s, s.latch(s.me).CountDown) }},
		{"wait", func(s *aclRun) func() error {
			s.set(1)
			return s.waitsFor(func() error { return s.latch(s.me).Wait(s.ctx) }, asks(s, s.latch(s.them).CountDown))
		}},
		{"count", func(s *aclRun) func() error { s.set(1); return asks(s, s.latch(s.me).Count) }},
		{"delete", func(s *aclRun) func() error { s.set(1); return asks(s, s.latch(s.me).Delete) }},
	},
}

func (s *aclRun) latch(c *holdfast.Client) *latch.Latch { return latch.New(c, s.name) }

func (s *aclRun) set(count int) {
	require.NoError(s, kindtest.Err(s.latch(s.them).Set(s.ctx, count)))
	s.ages()
}

var aclOfElection = aclKind{
	name: "election", table: "\n| `election`: permission | fails without it |\n",
	rule: func(srv *redistest.Server) string {
		return aclOn(srv, aclScripts, aclKeys, aclFair, aclChannels, aclElection)
	},
	waiting: (*aclRun).stands,
	poll:    lua.FairPoll,
	// A server disconnects a user who may no longer listen: a waiter is told so, or gives up before.
	chance: func(op, word string) (skip, may bool) {
		return false, op == "give up" && strings.HasPrefix(word, "&redisson_lock__channel:")
	},
	ops: []aclOp{
		{"campaign", func(s *aclRun) func() error { return s.gets(s.campaign(s.me)) }},
		{"resign", func(s *aclRun) func() error { return s.unlocks(s.held(s.campaign(s.me))) }},
		{"renew", func(s *aclRun) func() error { return s.extends(s.held(s.campaign(s.me))) }},
		{"wait", func(s *aclRun) func() error { return s.waits(s.campaign(s.me), s.campaign(s.them)) }},
		{"resign to a candidate", func(s *aclRun) func() error {
			h := s.held(s.campaign(s.me))
			s.behind(h, s.campaign(s.them), (*aclRun).stands)
			return s.unlocks(h)
		}},
		{"give up", func(s *aclRun) func() error {
			s.held(s.campaign(s.them))
			ctx, cancel := context.WithCancel(s.ctx)
			done := make(chan error, 1)
			go func() {
				_, err := s.campaign(s.me)(ctx)
				done <- err
			}()
			kindtest.Eventually(s.T, "it waits", func() bool {
				return s.stands() && s.listens("redisson_lock__channel:{"+s.name+"}")
			})
			return func() error {
				cancel()
				if err := <-done; !errors.Is(err, holdfast.ErrNotAcquired) {
					return fmt.Errorf("it has given up: %w", err)
				}
				return nil
			}
		}},
		{"leader", func(s *aclRun) func() error {
			s.held(s.campaign(s.them))
			return asks(s, election.New(s.me, s.name).Leader)
		}},
		{"observe", func(s *aclRun) func() error {
			s.held(s.campaign(s.them))
			return func() error {
				for _, err := range election.New(s.me, s.name).Observe(s.ctx) {
					return err
				}
				return s.ctx.Err()
			}
		}},
	},
}

// stands: somebody is a candidate.
func (s *aclRun) stands() bool {
	return s.on.all[0].Command(s.T, "LLEN", "redisson_lock_queue:{"+s.name+"}").(int64) == 1
}

func (s *aclRun) campaign(c *holdfast.Client) lock {
	return func(ctx context.Context, _ ...holdfast.Option) (*holdfast.Hold, error) {
		return election.New(c, s.name).Campaign(ctx, "leader")
	}
}
