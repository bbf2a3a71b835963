package integration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// subject is a lock of a user who loses a permission, and the same lock of one who may do
// everything.
type subject struct {
	t       *testing.T
	ctx     context.Context
	admin   redis.UniversalClient
	other   *rlock.Mutex // the administrator's
	mine    *rlock.Mutex
	serving *redistest.Server
	nodes   []*redistest.Server
}

// aclOps are the operations of a lock. "renew" is the watchdog's.
var aclOps = []string{"lock", "re-enter", "unlock", "extend", "renew", "state", "force unlock", "wait"}

func newSubject(t *testing.T, admin, limited redis.UniversalClient, name string, serving *redistest.Server,
	nodes ...*redistest.Server,
) *subject {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	opts := &holdfast.Options{Linger: time.Millisecond}
	return &subject{
		t: t, ctx: ctx, admin: admin, serving: serving, nodes: append(nodes, serving),
		other: rlock.New(newClient(t, admin, nil), name),
		mine:  rlock.New(newClient(t, limited, opts), name),
	}
}

// try makes what the operation needs while everything is permitted, and returns what the operation
// says after take has taken the permission away. give puts it back, and then the lock is given
// back.
func (s *subject) try(op string, take, give func()) (err error) {
	s.t.Helper()
	require.NoError(s.t, s.admin.Del(s.ctx, s.mine.Name(), "redisson_lock_token:"+tagged(s.mine.Name())).Err())
	revoke := take
	take = func() {
		revoke()
		s.serving.Command(s.t, "SCRIPT", "FLUSH") // so that the text must be sent
	}
	switch op {
	case "lock":
		take()
		h, err := s.mine.Lock(s.ctx)
		give()
		s.drop(h)
		return err
	case "wait":
		return s.wait(take, give)
	case "force unlock":
		h := s.lock(s.other)
		take()
		_, err = s.mine.ForceUnlock(s.ctx)
		give()
		s.drop(h)
		return err
	case "renew":
		h := s.lock(s.mine, holdfast.Lease(2*time.Second))
		take()
		err = s.renewed(h)
		give()
		s.drop(h)
		return err
	}
	h := s.lock(s.mine)
	take()
	switch op {
	case "re-enter":
		var inner *holdfast.Hold
		inner, err = s.mine.Lock(h.Context())
		give()
		s.drop(inner)
	case "extend":
		err = h.Extend(s.ctx, time.Hour)
	case "state":
		_, err = s.mine.State(s.ctx)
	case "unlock":
		err = h.Unlock(s.ctx)
		give()
		return err
	}
	give()
	s.drop(h)
	return err
}

func (s *subject) lock(m *rlock.Mutex, opts ...holdfast.Option) *holdfast.Hold {
	s.t.Helper()
	h, err := m.Lock(s.ctx, opts...)
	require.NoError(s.t, err)
	return h
}

// drop unlocks what is held.
func (s *subject) drop(h *holdfast.Hold) {
	if h != nil {
		_ = h.Unlock(s.ctx)
	}
}

// wait lets the limited user wait for the other's lock, and releases that as soon as somebody
// listens or has given up.
func (s *subject) wait(take, give func()) error {
	s.t.Helper()
	held := s.lock(s.other)
	eventually(s.ctx, s.t, "those who listened before have gone", func() bool { return s.listeners() == 0 })
	take()
	type result struct {
		hold *holdfast.Hold
		err  error
	}
	done := make(chan result, 1)
	go func() {
		h, err := s.mine.Lock(s.ctx)
		done <- result{h, err}
	}()
	eventually(s.ctx, s.t, "a waiter listens or has given up",
		func() bool { return len(done) > 0 || s.listeners() > 0 })
	require.NoError(s.t, held.Unlock(s.ctx))
	r := <-done
	give()
	s.drop(r.hold)
	return r.err
}

// listeners counts who listens for a release. A classic channel of a cluster may be listened to on
// any node of it.
func (s *subject) listeners() (n int64) {
	channel := "redisson_lock__channel:" + tagged(s.mine.Name())
	for _, node := range s.nodes {
		for _, numsub := range []string{"NUMSUB", "SHARDNUMSUB"} {
			reply, err := node.Try("PUBSUB", numsub, channel)
			if pair, ok := reply.([]any); ok && err == nil {
				n += pair[1].(int64)
			}
		}
	}
	return n
}

// renewed waits until the hold has been renewed or lost.
func (s *subject) renewed(h *holdfast.Hold) error {
	s.t.Helper()
	first := h.Deadline()
	eventually(s.ctx, s.t, "renewed or lost", func() bool {
		return h.Context().Err() != nil || h.Deadline().After(first)
	})
	return context.Cause(h.Context())
}

// expect looks at what an operation said. An error names the operation and the lock and says that
// it is about permissions, and did not come from the end of our patience.
func (s *subject) expect(op string, err error, fails bool) {
	s.t.Helper()
	if !fails {
		require.NoError(s.t, err, op)
		return
	}
	require.Error(s.t, err, "%s is permitted", op)
	require.NoError(s.t, s.ctx.Err(), "%s: %v", op, err)
	if op == "renew" {
		require.ErrorIs(s.t, err, holdfast.ErrLost)
		require.True(s.t, aboutPermissions(err), "%v", err)
		return
	}
	var e *holdfast.Error
	require.True(s.t, errors.As(err, &e), "%v", err)
	said := op
	if op == "wait" || op == "re-enter" {
		said = "lock"
	}
	require.Equal(s.t, said, e.Op)
	require.Equal(s.t, s.mine.Name(), e.Name)
	require.True(s.t, aboutPermissions(err), "%v", err)
}

// aboutPermissions: the servers have words of their own for it in each version; these are the
// library's.
func aboutPermissions(err error) bool {
	return strings.Contains(err.Error(), "this user lacks a permission") ||
		strings.Contains(err.Error(), "permit this user")
}
