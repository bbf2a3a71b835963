package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// aclOn is a rule for a single server of that version, which has permissions for channels or not.
func aclOn(srv *redistest.Server, rules ...string) string {
	words := strings.Fields(strings.Join(append(rules, aclSingle), " "))
	if srv.Major() < 7 {
		kept := words[:0]
		for _, word := range words {
			if !strings.HasPrefix(word, "&") {
				kept = append(kept, word)
			}
		}
		words = kept
	}
	return strings.Join(words, " ")
}

// extends is an operation that extends a lease, as the watchdog does.
func (s *aclRun) extends(h *holdfast.Hold) func() error {
	return func() error { return h.Extend(s.ctx, time.Hour) }
}

// ages waits until the key's time to live is less than it was, so that a script that puts it off has
// something to do.
func (s *aclRun) ages() {
	first := s.srv.Command(s.T, "PTTL", s.name).(int64)
	eventually(s.ctx, s.T, "time passes", func() bool { return s.srv.Command(s.T, "PTTL", s.name).(int64) < first })
}

// behind has somebody wait until h is given back, and then give back what it got.
func (s *aclRun) behind(wait func() (*holdfast.Hold, error), waits func() bool, h *holdfast.Hold) {
	got := make(chan error, 1)
	go func() {
		next, err := wait()
		if err == nil {
			err = next.Unlock(s.ctx)
		}
		got <- err
	}()
	eventually(s.ctx, s.T, "it waits", waits)
	s.after = append(s.after, func() error {
		_ = h.Unlock(s.ctx) // unless that was the operation
		return <-got
	})
}

// unlocks is the release.
func (s *aclRun) unlocks(h *holdfast.Hold) func() error {
	return func() error { return h.Unlock(s.ctx) }
}

var aclOfRW = aclKind{
	name: "rwlock",
	rule: func(srv *redistest.Server) string {
		return aclOn(srv, aclScripts, aclReadWrite, "~orders:* ~redisson_lock_token:{orders:*", aclReadWriteChannels)
	},
	waiting: func(s *aclRun) bool { return s.listens("redisson_rwlock:{" + s.name + "}") },
	ops: []aclOp{
		{"read", func(s *aclRun) func() error {
			return s.gets(func() (*holdfast.Hold, error) { return s.rw(s.mine).RLock(s.ctx) })
		}},
		{"write", func(s *aclRun) func() error {
			return s.gets(func() (*holdfast.Hold, error) { return s.rw(s.mine).Lock(s.ctx) })
		}},
		{"re-enter", func(s *aclRun) func() error {
			h := s.held(s.rw(s.mine).Lock(s.ctx))
			s.ages()
			return s.gets(func() (*holdfast.Hold, error) { return s.rw(s.mine).Lock(h.Context()) })
		}},
		{"read while writing", func(s *aclRun) func() error {
			h := s.held(s.rw(s.mine).Lock(s.ctx))
			return s.gets(func() (*holdfast.Hold, error) { return s.rw(s.mine).RLock(h.Context()) })
		}},
		{"stop reading", func(s *aclRun) func() error { return s.unlocks(s.held(s.rw(s.mine).RLock(s.ctx))) }},
		{"stop writing", func(s *aclRun) func() error { return s.unlocks(s.held(s.rw(s.mine).Lock(s.ctx))) }},
		{"renew reading", func(s *aclRun) func() error { return s.extends(s.held(s.rw(s.mine).RLock(s.ctx))) }},
		{"renew writing", func(s *aclRun) func() error { return s.extends(s.held(s.rw(s.mine).Lock(s.ctx))) }},
		{"wait to read", func(s *aclRun) func() error {
			h := s.held(s.rw(s.other).Lock(s.ctx))
			return s.waits(s.gets(func() (*holdfast.Hold, error) { return s.rw(s.mine).RLock(s.ctx) }), s.unlocks(h))
		}},
		{"wait to write", func(s *aclRun) func() error {
			h := s.held(s.rw(s.other).RLock(s.ctx))
			return s.waits(s.gets(func() (*holdfast.Hold, error) { return s.rw(s.mine).Lock(s.ctx) }), s.unlocks(h))
		}},
		{"read behind a writer", func(s *aclRun) func() error {
			h := s.held(s.rw(s.other).RLock(s.ctx))
			s.behind(func() (*holdfast.Hold, error) { return s.rw(s.other).Lock(s.ctx) }, func() bool {
				state, err := s.rw(s.other).State(s.ctx)
				return err == nil && state.Waiters == 1
			}, h)
			return func() error {
				_, err := s.rw(s.mine).TryRLock(s.ctx)
				if errors.Is(err, holdfast.ErrNotAcquired) {
					return nil
				}
				return fmt.Errorf("it has to wait: %w", err)
			}
		}},
		{"state", func(s *aclRun) func() error {
			s.held(s.rw(s.other).RLock(s.ctx))
			return func() error { _, err := s.rw(s.mine).State(s.ctx); return err }
		}},
		{"force unlock", func(s *aclRun) func() error {
			s.held(s.rw(s.other).Lock(s.ctx))
			return func() error { _, err := s.rw(s.mine).ForceUnlock(s.ctx); return err }
		}},
		{"force readers", func(s *aclRun) func() error {
			s.held(s.rw(s.other).RLock(s.ctx))
			return func() error { _, err := s.rw(s.mine).ForceUnlock(s.ctx); return err }
		}},
	},
	needs: aclTable(`
		+evalsha +eval ~orders:* => read, write, re-enter, read while writing, stop reading, stop writing, renew reading, renew writing, wait to read, wait to write, read behind a writer, state, force unlock, force readers
		+hlen => read, write, stop reading, stop writing, wait to read, wait to write, state, force unlock, force readers, read while writing
		+hexists => re-enter, read while writing, stop writing, renew reading, renew writing, wait to read, force unlock, force readers
		+hgetall => wait to write, state, force unlock, force readers, stop writing
		+hset => read, write, re-enter, read while writing, wait to read, wait to write
		+hdel +del ~redisson_rwlock:{orders:* +publish => stop reading, stop writing, force unlock, force readers
		+get +time => read, write, read while writing, wait to read, wait to write, read behind a writer, state, force unlock, force readers
		+set => read, write, read while writing, renew reading, wait to read, wait to write
		+pexpire => read, write, re-enter, read while writing, renew reading, renew writing, wait to read, wait to write
		+pttl => read, re-enter, read while writing, renew reading, renew writing, wait to read, wait to write, state, force unlock, force readers
		+hget => write, wait to write, state, force unlock, force readers, renew reading
		+hkeys => wait to read, read while writing, force unlock
		+hmget => read, read while writing, wait to read, read behind a writer
		+exists => read, read behind a writer
		+zadd => wait to write
		+zcount => state, force unlock, force readers
		+zrange => read behind a writer
		+zrem => stop writing, force unlock
		~{orders:* => read, read while writing, stop reading, renew reading, wait to read, wait to write, read behind a writer, state, force readers
		~holdfast_rwlock_writers:{orders:* => read, write, read while writing, stop writing, wait to read, wait to write, read behind a writer, state, force unlock, force readers
		~redisson_lock_token:{orders:* => read, write, read while writing, renew reading, renew writing, wait to read, wait to write, read behind a writer, state, force unlock, force readers
		&redisson_rwlock:{orders:* => stop reading, stop writing, wait to read, wait to write, force unlock, force readers
		+subscribe => wait to read, wait to write
		+unsubscribe +pubsub|numsub +ping =>
	`),
}

// listens: somebody who was refused listens on a channel.
func (s *aclRun) listens(channel string) bool {
	return s.srv.Command(s.T, "PUBSUB", "NUMSUB", channel).([]any)[1].(int64) > 0
}

func (s *aclRun) rw(c *holdfast.Client) *rwlock.RWMutex { return rwlock.New(c, s.name) }

var aclOfSemaphore = aclKind{
	name:    "semaphore",
	rule:    func(srv *redistest.Server) string { return aclOn(srv, aclSemaphore, aclSemaphoreChannels) },
	waiting: (*aclRun).wantsPermits,
	poll:    lua.SemPoll,
	ops: []aclOp{
		{"acquire", func(s *aclRun) func() error {
			return s.gets(func() (*holdfast.Hold, error) { return s.sem(s.mine).Acquire(s.ctx, 2) })
		}},
		{"release", func(s *aclRun) func() error { return s.unlocks(s.held(s.sem(s.mine).Acquire(s.ctx, 2))) }},
		{"renew", func(s *aclRun) func() error { return s.extends(s.held(s.sem(s.mine).Acquire(s.ctx, 2))) }},
		{"wait", func(s *aclRun) func() error {
			h := s.held(s.sem(s.other).Acquire(s.ctx, 3))
			return s.waits(s.gets(func() (*holdfast.Hold, error) { return s.sem(s.mine).Acquire(s.ctx, 2) }), s.unlocks(h))
		}},
		{"release to a waiter", func(s *aclRun) func() error {
			h := s.held(s.sem(s.mine).Acquire(s.ctx, 3))
			s.behind(func() (*holdfast.Hold, error) { return s.sem(s.other).Acquire(s.ctx, 2) }, s.wantsPermits, h)
			return s.unlocks(h)
		}},
		{"set", func(s *aclRun) func() error {
			s.held(s.sem(s.other).Lock(s.ctx))
			return func() error { return s.sem(s.mine).SetPermits(s.ctx, 5) }
		}},
		{"state", func(s *aclRun) func() error {
			s.held(s.sem(s.other).Lock(s.ctx))
			return func() error { _, err := s.sem(s.mine).State(s.ctx); return err }
		}},
	},
	needs: aclTable(`
		+evalsha +eval +time ~orders:* ~{orders:* ~redisson_lock_token:{orders:* => acquire, release, renew, wait, release to a waiter, set, state
		+get ~redisson_sc:{orders:* ~holdfast_semaphore_queue:{orders:* ~holdfast_semaphore_places:{orders:* ~holdfast_semaphore_wants:{orders:* => acquire, release, wait, release to a waiter, set, state
		+set => acquire, release to a waiter
		+incrby => acquire, release, release to a waiter, set
		+pexpire +pttl +zadd => acquire, renew, wait, release to a waiter, set
		+hget => release to a waiter
		+hset +subscribe => wait
		+hdel => release, release to a waiter
		+zcard => acquire, wait, set, state
		+zcount => state
		+zrange => acquire, release, wait, release to a waiter, set
		+zrangebyscore => release, wait, release to a waiter, set, state
		+zrem => release, renew, wait, release to a waiter
		+zremrangebyscore => set
		+unsubscribe +pubsub|numsub +ping =>
		+zscore => acquire, release, renew, wait, release to a waiter, set
		&redisson_sc:{orders:* => release, wait, release to a waiter, set
		+publish => release, release to a waiter, set
	`),
}

// wantsPermits: somebody has a place in the queue of the semaphore.
func (s *aclRun) wantsPermits() bool {
	state, err := s.sem(s.other).State(s.ctx)
	return err == nil && state.Waiters == 1
}

func (s *aclRun) sem(c *holdfast.Client) *semaphore.Semaphore { return semaphore.New(c, s.name, 3) }

var aclOfLatch = aclKind{
	name:    "latch",
	rule:    func(srv *redistest.Server) string { return aclOn(srv, aclLatch) },
	waiting: func(s *aclRun) bool { return s.listens("redisson_countdownlatch__channel__{" + s.name + "}") },
	ops: []aclOp{
		{"set", func(s *aclRun) func() error {
			return func() error { _, err := s.latch(s.mine).Set(s.ctx, 2); return err }
		}},
		{"count down", func(s *aclRun) func() error {
			s.set(2)
			return func() error { _, err := s.latch(s.mine).CountDown(s.ctx); return err }
		}},
		{"open", func(s *aclRun) func() error {
			s.set(1)
			return func() error { _, err := s.latch(s.mine).CountDown(s.ctx); return err }
		}},
		{"wait", func(s *aclRun) func() error {
			s.set(1)
			return s.waits(func() error { return s.latch(s.mine).Wait(s.ctx) },
				func() error { _, err := s.latch(s.other).CountDown(s.ctx); return err })
		}},
		{"count", func(s *aclRun) func() error {
			s.set(1)
			return func() error { _, err := s.latch(s.mine).Count(s.ctx); return err }
		}},
		{"delete", func(s *aclRun) func() error {
			s.set(1)
			return func() error { _, err := s.latch(s.mine).Delete(s.ctx); return err }
		}},
	},
	needs: aclTable(`
		+evalsha +eval ~orders:* => set, count down, open, wait, count, delete
		+decr +pexpire => count down, open
		+exists => count down, open
		+set +time ~holdfast_latch:{orders:* => set, count down, open, delete
		+get => set, count down, open, wait, count, delete
		+del +publish => open, delete
		+pttl => count down, open, wait, count
		&redisson_countdownlatch__channel__{orders:* => open, wait, delete
		+subscribe => wait
		+unsubscribe +pubsub|numsub +ping =>
	`),
}

func (s *aclRun) latch(c *holdfast.Client) *latch.Latch { return latch.New(c, s.name) }

func (s *aclRun) set(count int) {
	s.Helper()
	_, err := s.latch(s.other).Set(s.ctx, count)
	require.NoError(s, err)
	s.ages()
}

var aclOfElection = aclKind{
	name: "election",
	rule: func(srv *redistest.Server) string {
		return aclOn(srv, aclScripts, aclKeys, aclFair, aclChannels, aclElection)
	},
	waiting: (*aclRun).stands,
	poll:    lua.FairPoll,
	ops: []aclOp{
		{"campaign", func(s *aclRun) func() error {
			return s.gets(func() (*holdfast.Hold, error) { return s.election(s.mine).Campaign(s.ctx, "mine") })
		}},
		{"resign", func(s *aclRun) func() error {
			return s.unlocks(s.held(s.election(s.mine).Campaign(s.ctx, "mine")))
		}},
		{"renew", func(s *aclRun) func() error {
			return s.extends(s.held(s.election(s.mine).Campaign(s.ctx, "mine")))
		}},
		{"wait", func(s *aclRun) func() error {
			h := s.held(s.election(s.other).Campaign(s.ctx, "other"))
			return s.waits(s.gets(func() (*holdfast.Hold, error) { return s.election(s.mine).Campaign(s.ctx, "mine") }),
				s.unlocks(h))
		}},
		{"resign to a candidate", func(s *aclRun) func() error {
			h := s.held(s.election(s.mine).Campaign(s.ctx, "mine"))
			s.behind(func() (*holdfast.Hold, error) { return s.election(s.other).Campaign(s.ctx, "other") }, s.stands, h)
			return s.unlocks(h)
		}},
		{"give up", func(s *aclRun) func() error {
			s.held(s.election(s.other).Campaign(s.ctx, "other"))
			ctx, cancel := context.WithCancel(s.ctx)
			done := make(chan error, 1)
			go func() {
				_, err := s.election(s.mine).Campaign(ctx, "mine")
				done <- err
			}()
			eventually(s.ctx, s.T, "it waits", s.stands)
			return func() error {
				cancel()
				if err := <-done; !errors.Is(err, holdfast.ErrNotAcquired) {
					return fmt.Errorf("it has given up: %w", err)
				}
				return nil
			}
		}},
		{"leader", func(s *aclRun) func() error {
			s.held(s.election(s.other).Campaign(s.ctx, "other"))
			return func() error { _, err := s.election(s.mine).Leader(s.ctx); return err }
		}},
		{"observe", func(s *aclRun) func() error {
			s.held(s.election(s.other).Campaign(s.ctx, "other"))
			return func() error {
				for _, err := range s.election(s.mine).Observe(s.ctx) {
					return err
				}
				return s.ctx.Err()
			}
		}},
	},
	needs: aclTable(`
		+evalsha +eval +hexists ~orders:* ~holdfast_election:{orders:* => campaign, resign, renew, wait, resign to a candidate, leader, observe
		+hlen &holdfast_election__channel:{orders:* => campaign, wait
		+hgetall +rpush +subscribe => wait
		+hset => campaign, resign to a candidate
		+hdel +llen +lrange +lrem +ltrim +zcard +zcount +unsubscribe +pubsub|numsub +ping =>
		+del +zrem => resign, resign to a candidate
		+get => campaign, wait, resign to a candidate, leader, observe
		+set +publish => campaign, wait, resign to a candidate
		+pexpire => campaign, renew, wait, resign to a candidate
		+pttl => renew, wait, leader, observe
		+time ~redisson_lock__channel:{orders:* +lindex ~redisson_lock_queue:{orders:* ~redisson_lock_timeout:{orders:* ~holdfast_election__channel:{orders:* => campaign, resign, wait, resign to a candidate
		~redisson_lock_token:{orders:* => campaign, resign, renew, wait, resign to a candidate
		+lpop +zrange +zscore => resign to a candidate
		+zadd &redisson_lock__channel:{orders:* => wait, resign to a candidate
	`),
}

// stands: somebody is a candidate.
func (s *aclRun) stands() bool {
	return s.srv.Command(s.T, "LLEN", "redisson_lock_queue:{"+s.name+"}").(int64) == 1
}

func (s *aclRun) election(c *holdfast.Client) *election.Election { return election.New(c, s.name) }
