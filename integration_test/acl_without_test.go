package integration_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// needs says which operations fail without a permission of a single server. docs/security.md has
// the same table.
var needs = map[string]string{
	"+evalsha":     "lock, re-enter, unlock, extend, renew, state, force unlock, wait",
	"+eval":        "lock, re-enter, unlock, extend, renew, state, force unlock, wait",
	"+hlen":        "lock, state, force unlock, wait",
	"+hexists":     "re-enter, unlock, extend, renew, force unlock",
	"+hgetall":     "state, force unlock",
	"+hset":        "lock, re-enter, wait",
	"+hdel":        "",
	"+del":         "unlock, force unlock",
	"+get":         "lock, state, force unlock, wait",
	"+set":         "lock, wait",
	"+pexpire":     "lock, re-enter, extend, renew, wait",
	"+pttl":        "re-enter, extend, renew, state, force unlock, wait",
	"+time":        "lock, wait",
	"+publish":     "unlock, force unlock",
	"+subscribe":   "wait",
	"+unsubscribe": "",
	"+ping":        "",

	"+pubsub|numsub": "",

	"~orders:*":                         "lock, re-enter, unlock, extend, renew, state, force unlock, wait",
	"~redisson_lock_token:{orders:*":    "lock, extend, renew, state, force unlock, wait",
	"~redisson_lock__channel:{orders:*": "unlock, force unlock",
	"&redisson_lock__channel:{orders:*": "unlock, force unlock, wait",
}

// needsFar is what may fail, too, on a busy machine, where a client takes itself to be far from the
// server: it asks for a head start. docs/security.md says so in words.
var needsFar = map[string]string{"~redisson_lock__channel:{orders:*": "lock, wait"}

// TestWithoutAPermission takes each permission away in turn. What needs it says so at once, and
// nothing else is hurt.
func TestWithoutAPermission(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		t.Parallel()
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rule := aclRule(srv, false)
		rdb := as(t, srv, "limited", rule)
		for _, word := range strings.Fields(rule) {
			t.Run(word, func(t *testing.T) {
				fails, ok := needs[word]
				require.True(t, ok)
				s := newSubject(t, srv.Client(t), rdb, "orders:42", srv)
				for _, op := range aclOps {
					setUser(t, srv, "limited", rule)
					err := s.try(op, func() { setUser(t, srv, "limited", without(rule, word)) },
						func() { setUser(t, srv, "limited", rule) })
					may := err != nil && slices.Contains(strings.Split(needsFar[word], ", "), op)
					s.expect(op, err, may || slices.Contains(strings.Split(fails, ", "), op))
					s.leftBehind(op)
				}
			})
		}
	})
}

// leftBehind: after a failure nothing stands for ever, and after a failed acquisition nothing
// stands at all.
func (s *subject) leftBehind(op string) {
	s.t.Helper()
	left, err := look(s.ctx, s.serving.Client(s.t))
	require.NoError(s.t, err)
	require.NoError(s.t, left.withTTL(), op)
	if op == "lock" || op == "wait" {
		require.NotContains(s.t, left, s.mine.Name())
	}
}
