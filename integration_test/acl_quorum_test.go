package integration_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
)

// aclQuorum is what a user of locks that several masters grant needs beside the rule for a single
// server, at each of them.
const aclQuorum = "+hkeys +info|server"

// quorumNeeds says which operations fail where no master permits something. docs/security.md has
// the same table.
var quorumNeeds = map[string]string{
	"+evalsha":     "lock, re-enter, unlock, extend, renew, wait, state, force unlock",
	"+eval":        "lock, re-enter, unlock, extend, renew, wait, state, force unlock",
	"+hlen":        "lock, wait, state, force unlock",
	"+hexists":     "re-enter, unlock, extend, renew, wait, force unlock",
	"+hgetall":     "state, force unlock",
	"+hset":        "lock, re-enter, wait",
	"+del":         "unlock, force unlock",
	"+get":         "lock, wait, state, force unlock",
	"+set":         "lock, wait, force unlock",
	"+pexpire":     "lock, re-enter, extend, renew, wait",
	"+pttl":        "re-enter, extend, renew, wait, state, force unlock",
	"+time":        "lock, wait, force unlock",
	"+publish":     "unlock, force unlock",
	"+subscribe":   "wait",
	"+hkeys":       "wait",
	"+info|server": "lock, wait",
}

var quorumOps = []string{"lock", "re-enter", "unlock", "extend", "renew", "wait", "state", "force unlock"}

// quorumSubject is a lock of a user who loses a permission at all masters, and the same lock of one
// who may do everything.
type quorumSubject struct {
	*testing.T
	ctx         context.Context
	masters     []*redistest.Server
	mine, other *redlock.Mutex
}

func newQuorumSubject(t *testing.T, masters []*redistest.Server, rule string) *quorumSubject {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s := &quorumSubject{T: t, ctx: ctx, masters: masters}
	opts := &holdfast.Options{Linger: time.Millisecond, RetryBudget: 3 * time.Second}
	var mine, others []*holdfast.Client
	for _, m := range masters {
		mine = append(mine, newClient(t, as(t, m, "limited", rule), opts))
		others = append(others, newClient(t, m.Client(t), nil))
	}
	patient := redlock.MasterTimeout(2 * time.Second)
	s.mine, s.other = redlock.New(mine, "orders:42", patient), redlock.New(others, "orders:42", patient)
	return s
}

func (s *quorumSubject) permit(rule string) {
	for _, m := range s.masters {
		setUser(s.T, m, "limited", rule)
		m.Command(s.T, "SCRIPT", "FLUSH") // so that the text must be sent
	}
}

// try is one operation whose preparations are permitted, and which itself may do only what less
// says.
func (s *quorumSubject) try(op, rule, less string) (err error) {
	s.Helper()
	var holds []*holdfast.Hold
	lock := func(m *redlock.Mutex, ctx context.Context, opts ...holdfast.Option) error {
		h, err := m.Lock(ctx, opts...)
		if err == nil {
			holds = append(holds, h)
		}
		return err
	}
	defer func() {
		s.permit(rule)
		for _, h := range slices.Backward(holds) {
			_ = h.Unlock(s.ctx)
		}
	}()
	switch op {
	case "lock":
	case "wait":
		err = lock(s.other, s.ctx)
	case "renew":
		err = lock(s.mine, s.ctx, holdfast.Lease(3*time.Second)) // time to hear why, on a busy machine
	default:
		err = lock(s.mine, s.ctx)
	}
	require.NoError(s, err)
	s.permit(less)
	switch op {
	case "lock":
		return lock(s.mine, s.ctx)
	case "re-enter":
		return lock(s.mine, holds[0].Context())
	case "extend":
		return holds[0].Extend(s.ctx, time.Hour)
	case "unlock":
		return holds[0].Unlock(s.ctx)
	case "state":
		_, err := s.mine.State(s.ctx)
		return err
	case "force unlock":
		_, err := s.mine.ForceUnlock(s.ctx)
		return err
	case "renew":
		h, first := holds[0], holds[0].Deadline()
		eventually(s.ctx, s.T, "renewed or lost", func() bool {
			return h.Context().Err() != nil ||
				h.Deadline().After(first)
		})
		return context.Cause(h.Context())
	}
	eventually(s.ctx, s.T, "those who listened before have gone", func() bool { return s.listeners() == 0 })
	done := make(chan error, 1)
	held := holds[0]
	go func() { done <- lock(s.mine, s.ctx) }()
	eventually(s.ctx, s.T, "the waiter listens or has given up",
		func() bool { return len(done) > 0 || s.listeners() > 0 })
	require.NoError(s, held.Unlock(s.ctx))
	return <-done
}

// listeners counts who listens at the first master.
func (s *quorumSubject) listeners() int64 {
	return s.masters[0].Command(s.T, "PUBSUB", "NUMSUB", "redisson_lock__channel:{orders:42}").([]any)[1].(int64)
}

// TestQuorumLeastPrivilege: with exactly this rule at each master a quorum lock has its whole life.
func TestQuorumLeastPrivilege(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		masters := redistest.StartMasters(t, 3, redistest.Exec(p.Path))
		rule := aclRule(masters[0], false) + " " + aclQuorum
		s := newQuorumSubject(t, masters, rule)
		for _, op := range quorumOps {
			require.NoError(t, s.try(op, rule, rule), op)
		}
		for _, m := range masters {
			require.Empty(t, refused(t, m))
			left, err := look(t.Context(), m.Client(t))
			require.NoError(t, err)
			require.NoError(t, left.withTTL())
		}
	})
}

// TestQuorumWithoutAPermission takes each permission away in turn. What needs it says so.
func TestQuorumWithoutAPermission(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		t.Parallel()
		masters := redistest.StartMasters(t, 3, redistest.Exec(p.Path))
		rule := aclRule(masters[0], false) + " " + aclQuorum
		for _, word := range strings.Fields(rule) {
			t.Run(word, func(t *testing.T) {
				fails, ok := quorumNeeds[word]
				if !ok && strings.ContainsAny(word[:1], "~&") {
					return // as on a single server
				}
				for _, op := range quorumOps {
					for _, m := range masters {
						m.Command(t, "FLUSHALL") // what could not be unlocked
					}
					if word == "+del" && op == "wait" {
						// a vote of too few masters cannot be given back then: it is chance whether
						// one gets the lock
						continue
					}
					s := newQuorumSubject(t, masters, rule)
					err := s.try(op, rule, without(rule, word))
					if !slices.Contains(strings.Split(fails, ", "), op) {
						require.NoError(t, err, op)
						continue
					}
					require.Error(t, err, "%s is permitted", op)
					require.NoError(t, s.ctx.Err(), "%s: %v", op, err)
					require.True(t, aboutPermissions(err) || quotesRefusal(err), "%s: %v", op, err)
					var e *holdfast.Error
					require.True(t, op == "renew" && errors.Is(err, holdfast.ErrLost) || errors.As(err, &e), "%v", err)
					for _, m := range masters {
						left, err := look(s.ctx, m.Client(t))
						require.NoError(t, err)
						require.NoError(t, left.withTTL(), op)
					}
				}
			})
		}
	})
}

// quotesRefusal: what the masters said stands in the error.
func quotesRefusal(err error) bool {
	return slices.ContainsFunc([]string{"NOPERM", "user executing the script", "ACL failure"},
		func(words string) bool { return strings.Contains(err.Error(), words) })
}

// TestSecurityDocSaysWhatQuorumsNeed: the rule and the table of docs/security.md are those of the
// tests.
func TestSecurityDocSaysWhatQuorumsNeed(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	require.NoError(t, err)
	require.Contains(t, string(text), "`"+aclQuorum+"`")
	_, section, _ := strings.Cut(string(text), "\n### Quorum locks\n")
	section, _, _ = strings.Cut(section, "\n### ")
	table := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*) \\|$").FindAllStringSubmatch(section, -1) {
		table[strings.ReplaceAll(m[1], `\|`, "|")] = m[2]
	}
	require.Equal(t, quorumNeeds, table)
}
