package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/lua"
)

// Replicas says how many replicas must have a grant. If N is 0, none must have it.
type Replicas struct {
	N       int
	Timeout time.Duration
	OnDisk  bool
}

// Cover reports whether a grant that r replicas have is good enough for a caller who wants want.
func (r Replicas) Cover(want Replicas) bool { return want.N <= r.N && (r.OnDisk || !want.OnDisk) }

// Replicated is a server whose answer counts only when replicas have what an operation wrote. If
// too few replicas have it, that is an error, and the write stays: the caller must take it back.
type Replicated struct {
	*Server
	home *Session
	name string // of the lock
	want Replicas
}

// Repeat is [Session.Repeat]. It bypasses the combiner, because commands that travelled with this
// one would wait too. In haste it returns soon after the deadline of the context and the time that
// the replicas may take.
func (s *Replicated) Repeat(ctx context.Context, op Operation, retry Retry, failed *atomic.Pointer[error]) Outcome {
	a := NewAttempts(s.Server, s.home, retry)
	return a.run(ctx, RetryNow, op, s.send, failed)
}

func (s *Replicated) send(ctx context.Context, call lua.Call, haste bool) (lua.Reply, error) {
	node, _ := s.redis.(*redis.Client)
	if s.Cluster != nil { // it would send a command without a key to just any server
		var err error
		if node, err = s.Cluster.MasterForKey(ctx, s.name); err != nil {
			return lua.Reply{}, err
		}
	}
	patient, millis := node, kind.Millis(s.want.Timeout)
	if d := s.patience(ctx, node.Options().ReadTimeout, haste); d > 0 {
		patient = node.WithTimeout(d)
	}
	wait := []any{"wait", s.want.N, millis}
	if s.want.OnDisk {
		wait = []any{"waitaof", 0, s.want.N, millis}
	}
	reply, n, err := lua.RunWait(ctx, patient, call, wait...)
	switch {
	case s.want.OnDisk && lua.IsError(err, "unknown command"):
		err = errs.Both(errors.New("ReplicasOnDisk needs Redis 7.2 or Valkey; use Replicas"), err)
	case s.Cluster != nil && lua.IsError(err, "MOVED"):
		s.Cluster.ReloadState(ctx) // the client of a single server does not follow it
	case err == nil && reply.Status == lua.Done && n < int64(s.want.N):
		err = s.tooFew(ctx, node, n)
	case err != nil && s.isLate(ctx, err):
		err = errs.Both(ctx.Err(), err)
	}
	return reply, err
}

// patience returns how long go-redis reads the replies of the pipeline, whatever is in it. This is
// the usual time and the time that the replicas may take. In haste the rest of the context's time
// replaces the usual time, if that is shorter. A value that is not positive means for ever.
func (s *Replicated) patience(ctx context.Context, usual time.Duration, haste bool) time.Duration {
	d := usual
	if usual > 0 {
		d += s.want.Timeout
	}
	if end, ok := ctx.Deadline(); haste && ok {
		if left, _ := class(max(time.Until(end), least) + s.want.Timeout); d <= 0 || left < d {
			return left
		}
	}
	return d
}

// tooFew says how many replicas confirmed, and the reason as far as it can be seen.
func (s *Replicated) tooFew(ctx context.Context, node *redis.Client, n int64) error {
	var hint string
	var has int
	info, _ := node.Info(ctx, "replication").Result() // INFO may not be permitted
	if _, rest, ok := strings.Cut(info, "connected_slaves:"); ok {
		if _, err := fmt.Sscan(rest, &has); err == nil && has < s.want.N {
			hint = fmt.Sprintf("; the server has %d, so the lock cannot be had; ask for %d, or repair the other replicas", has, has)
			if has == 0 {
				hint = "; the server has none, so the lock cannot be had; leave the option out, or repair the replicas"
			}
		}
	}
	if hint == "" && s.want.OnDisk {
		hint = "; those without appendonly never do"
	}
	return errs.Both(errs.ErrNotReplicated, fmt.Errorf("%d of %d replicas confirmed within %v%s", n, s.want.N,
		s.want.Timeout, hint))
}

// NewReplicated makes a Replicated for the lock called name.
func NewReplicated(home *Session, at *Server, name string, want Replicas) *Replicated {
	return &Replicated{at, home, name, want}
}
