package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// aclKind is a kind of lock whose users lose their permissions, one at a time.
type aclKind struct {
	name    string
	rule    func(srv *redistest.Server) string
	waiting func(s *aclRun) bool // somebody waits, who will not get the lock before it has asked once more
	poll    *lua.Script          // by which those who wait in a queue keep their places, if they do
	ops     []aclOp
	needs   map[string]string // which operations fail without a permission; docs/security.md has the same table
}

// aclOp is an operation. prepare makes what it needs while everything is permitted.
type aclOp struct {
	name    string
	prepare func(s *aclRun) (op func() error)
}

// aclRun is one operation with its lock, of the user who loses a permission and of one who may do
// everything.
type aclRun struct {
	*testing.T
	ctx         context.Context
	kind        *aclKind
	srv         *redistest.Server
	mine, other *holdfast.Client
	name        string
	holds       []*holdfast.Hold
	after       []func() error // what must come to its end when everything is permitted again
}

// held takes a lock, for as long as the run lasts.
func (s *aclRun) held(h *holdfast.Hold, err error) *holdfast.Hold {
	s.Helper()
	require.NoError(s, err)
	s.holds = append(s.holds, h)
	return h
}

// gets is an operation that takes a lock.
func (s *aclRun) gets(lock func() (*holdfast.Hold, error)) func() error {
	return func() error {
		h, err := lock()
		if err == nil {
			s.holds = append(s.holds, h)
		}
		return err
	}
}

// waits is an operation that waits until let, which is called when it is known to wait or has given up.
func (s *aclRun) waits(wait func() error, let func() error) func() error {
	return func() error {
		done := make(chan error, 1)
		go func() { done <- wait() }()
		eventually(s.ctx, s.T, "it waits or has given up", func() bool { return len(done) > 0 || s.kind.waiting(s) })
		require.NoError(s, let())
		return <-done
	}
}

// aclTable reads a table: permissions, and which operations fail without any one of them.
func aclTable(text string) map[string]string {
	table := map[string]string{}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		words, fails, _ := strings.Cut(line, "=>")
		for word := range strings.FieldsSeq(words) {
			table[word] = strings.TrimSpace(fails)
		}
	}
	return table
}

// aclNames is where the names of locks come from: each operation has one of its own.
var aclNames atomic.Int64

// TestFamilyWithoutAPermission takes each permission away in turn, from each kind. What needs it says
// so at once, nothing else is hurt, and nothing stands for ever.
func TestFamilyWithoutAPermission(t *testing.T) {
	for _, k := range []*aclKind{&aclOfRW, &aclOfSemaphore, &aclOfLatch, &aclOfElection} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range aclPrograms(t) {
				t.Run(p.Name, func(t *testing.T) {
					t.Parallel()
					srv := redistest.Start(t, redistest.Exec(p.Path))
					other := newClient(t, srv.Client(t), nil)
					for i, word := range append(strings.Fields(k.rule(srv)), "nothing") {
						t.Run(word, func(t *testing.T) { k.without(t, srv, other, fmt.Sprint("limited-", i), word) })
					}
				})
			}
		})
	}
}

// aclPrograms are the oldest and the newest Redis and the newest Valkey, and in a short run the newest
// Redis: which commands a script calls does not depend on the version.
func aclPrograms(t *testing.T) []redistest.Program {
	all := redistest.Programs(t) // sorted, with Valkey at the end
	var some []redistest.Program
	for i, p := range all {
		newest := i == len(all)-1 || !p.Valkey && all[i+1].Valkey
		if newest && !p.Valkey || !testing.Short() && (newest || i == 0) {
			some = append(some, p)
		}
	}
	return some
}

// without runs all operations as a user who has the rule without a word of it.
func (k *aclKind) without(t *testing.T, srv *redistest.Server, other *holdfast.Client, user, word string) {
	rule := k.rule(srv)
	rdb := as(t, srv, user, rule)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	fails, ok := k.needs[word]
	require.True(t, ok || word == "nothing", "%s is not in the table", word)
	for _, op := range k.ops {
		s := &aclRun{T: t, ctx: ctx, kind: k, srv: srv, other: other, name: fmt.Sprint("orders:", aclNames.Add(1))}
		s.mine = newClient(t, rdb, &holdfast.Options{Linger: time.Millisecond})
		do := op.prepare(s)
		setUser(t, srv, user, without(rule, word))
		srv.Command(t, "SCRIPT", "FLUSH") // so that the text must be sent
		err := do()
		setUser(t, srv, user, rule)
		// On a busy machine a wait is long enough for a poll.
		polled := err != nil && strings.Contains(op.name, "wait") && k.poll != nil && strings.HasPrefix(word, "+") &&
			strings.Contains(k.poll.Text(), "'"+strings.ToUpper(word[1:])+"'")
		s.judge(op.name, err, polled || slices.Contains(strings.Split(fails, ", "), op.name))
		for _, h := range slices.Backward(s.holds) {
			_ = h.Unlock(ctx)
		}
		for _, end := range s.after {
			require.NoError(t, end(), op.name)
		}
		require.NoError(t, s.mine.Close(ctx))
	}
	left, err := look(ctx, srv.Client(t))
	require.NoError(t, err)
	require.NoError(t, left.withTTL())
}

// judge: an operation that needs what was taken away says so, and the others work.
func (s *aclRun) judge(op string, err error, fails bool) {
	s.Helper()
	if !fails {
		require.NoError(s, err, op)
		return
	}
	require.Error(s, err, "%s is permitted", op)
	require.NoError(s, s.ctx.Err(), "%s: %v", op, err)
	require.True(s, aboutPermissions(err) || quotesRefusal(err), "%s: %v", op, err)
	var e *holdfast.Error
	require.True(s, errors.As(err, &e), "%s: %v", op, err)
	require.Equal(s, s.name, e.Name)
}

// TestSecurityDocSaysWhatTheFamilyNeeds: the tables of docs/security.md are those of the tests.
func TestSecurityDocSaysWhatTheFamilyNeeds(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	require.NoError(t, err)
	for _, k := range []*aclKind{&aclOfRW, &aclOfSemaphore, &aclOfLatch, &aclOfElection} {
		_, section, ok := strings.Cut(string(text), "\n| `"+k.name+"`: permission | fails without it |\n")
		require.True(t, ok, k.name)
		section, _, _ = strings.Cut(section, "\n\n")
		table := map[string]string{}
		for _, m := range regexp.MustCompile("(?m)^\\| (`.*`) \\| ([^|]*)\\|$").FindAllStringSubmatch(section, -1) {
			for word := range strings.FieldsSeq(strings.ReplaceAll(m[1], "`", "")) {
				table[strings.ReplaceAll(word, `\|`, "|")] = strings.TrimSpace(m[2])
			}
		}
		require.Equal(t, k.needs, table, k.name)
	}
}
