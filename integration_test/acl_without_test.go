package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// aclKind is a kind of lock whose users lose their permissions, one at a time.
type aclKind struct {
	name    string
	table   string // of docs/security.md: the text before it. It says which operations fail without a permission
	rule    func(srv *redistest.Server) string
	masters int                                    // how many there are of a lock of several
	waiting func(s *aclRun) bool                   // somebody waits, who will not get the lock before it has asked once more
	poll    *lua.Script                            // by which those who wait in a queue keep their places, if they do
	chance  func(op, word string) (skip, may bool) // an operation that chance decides on, or that may fail, too
	ops     []aclOp
	also    func(s *aclRun) // what else is permitted
}

// aclOp is an operation. prepare makes what it needs while everything is permitted.
type aclOp struct {
	name    string
	prepare func(s *aclRun) (op func() error)
}

// aclRun is one operation with its lock, of the user who loses a permission and of one who may do everything.
type aclRun struct {
	*testing.T
	ctx      context.Context
	kind     *aclKind
	on       aclServers
	me, them *holdfast.Client
	mine     []*holdfast.Client // one for each master
	name     string
	holds    []*holdfast.Hold
	after    []func() error // what must come to its end when everything is permitted again
	evals    int            // the texts of scripts that the servers had been sent before a wait
}

// aclServers are the servers that a user is limited on, and how to reach them.
type aclServers struct {
	all     []*redistest.Server
	connect func(user string) []redis.UniversalClient
	others  []*holdfast.Client
	cluster bool
}

// aclMasters starts independent servers, mostly one.
func aclMasters(t *testing.T, p redistest.Program, n int) (on aclServers) {
	on.all = redistest.StartMasters(t, n, redistest.Exec(p.Path))
	for _, srv := range on.all {
		on.others = append(on.others, newClient(t, srv.Client(t), nil))
	}
	on.connect = func(user string) (rdbs []redis.UniversalClient) {
		for _, srv := range on.all {
			rdbs = append(rdbs, srv.Client(t, func(o *redis.Options) { o.Username, o.Password = user, "secret" }))
		}
		return rdbs
	}
	return on
}

// permit gives the user a rule everywhere.
func (on aclServers) permit(t *testing.T, user, rule string) {
	for _, srv := range on.all {
		setUser(t, srv, user, rule)
	}
}

// lock is how a lock is taken, for example by its method Lock.
type lock = func(context.Context, ...holdfast.Option) (*holdfast.Hold, error)

// held takes a lock, for as long as the run lasts.
func (s *aclRun) held(take lock) *holdfast.Hold {
	h, err := take(s.ctx)
	require.NoError(s, err)
	s.holds = append(s.holds, h)
	return h
}

// gets is an operation that takes a lock.
func (s *aclRun) gets(take lock) func() error { return s.getsAs(s.ctx, take) }

func (s *aclRun) getsAs(ctx context.Context, take lock) func() error {
	return func() error {
		h, err := take(ctx)
		if err == nil {
			s.holds = append(s.holds, h)
		}
		return err
	}
}

// reenters is an operation under a hold.
func (s *aclRun) reenters(outer, inner lock) func() error {
	h := s.held(outer)
	s.ages()
	return s.getsAs(h.Context(), inner)
}

// unlocks is the release.
func (s *aclRun) unlocks(h *holdfast.Hold) func() error {
	return func() error { return h.Unlock(s.ctx) }
}

// extends is an operation that extends a lease, as the watchdog does.
func (s *aclRun) extends(h *holdfast.Hold) func() error {
	return func() error { return h.Extend(s.ctx, time.Hour) }
}

// waits is an operation that waits for what the other user has, who gives it back once it is known to wait, or gave up.
func (s *aclRun) waits(mine, theirs lock) func() error {
	h := s.held(theirs)
	return s.waitsFor(s.gets(mine), s.unlocks(h))
}

func (s *aclRun) waitsFor(wait, let func() error) func() error {
	return func() error {
		done := make(chan error, 1)
		s.evals = s.evaluated()
		go func() { done <- wait() }()
		kindtest.Eventually(s.T, "it waits or has given up", func() bool { return len(done) > 0 || s.kind.waiting(s) })
		require.NoError(s, let())
		return <-done
	}
}

// evaluated is how many texts of scripts the servers have been sent.
func (s *aclRun) evaluated() (n int) {
	for _, srv := range s.on.all {
		if found := evalCalls.FindStringSubmatch(srv.Command(s.T, "INFO", "commandstats").(string)); found != nil {
			calls, err := strconv.Atoi(found[1])
			require.NoError(s, err)
			n += calls
		}
	}
	return n
}

var evalCalls = regexp.MustCompile(`cmdstat_eval:calls=(\d+)`)

// behind has the other user wait until h is given back, and then give back what it got.
func (s *aclRun) behind(h *holdfast.Hold, wait lock, waits func(s *aclRun) bool) {
	got := make(chan error, 1)
	go func() {
		next, err := wait(s.ctx)
		if err == nil {
			err = next.Unlock(s.ctx)
		}
		got <- err
	}()
	kindtest.Eventually(s.T, "it waits", func() bool { return waits(s) })
	s.after = append(s.after, func() error {
		_ = h.Unlock(s.ctx) // unless that was the operation
		return <-got
	})
}

// ages waits until the key's time to live is less than it was, so that a script that puts it off has something to do.
func (s *aclRun) ages() {
	left := func() int64 { return s.on.all[0].Command(s.T, "PTTL", s.name).(int64) }
	first := left()
	kindtest.Eventually(s.T, "time passes", func() bool { return first < 0 || left() < first })
}

// listens: a client, perhaps a refused one, listens on a channel whose name begins so. In a cluster that may be at any node.
func (s *aclRun) listens(channel string) bool {
	for _, srv := range s.on.all {
		for _, channels := range []string{"CHANNELS", "SHARDCHANNELS"} {
			reply, err := srv.Try("PUBSUB", channels, channel+"*")
			if list, ok := reply.([]any); ok && err == nil && len(list) > 0 {
				return true
			}
		}
	}
	return false
}

// TestWithoutAPermission: with exactly its rule all is permitted that a kind does. Then each permission is taken away in turn:
// what needs it, by the tables of docs/security.md, says so at once, nothing else is hurt, and nothing stands for ever.
func TestWithoutAPermission(t *testing.T) {
	for _, k := range aclKinds {
		t.Run(k.name, func(t *testing.T) {
			if k.masters > 1 || k.name == "rlock" || k.name == "rwlock" { // quickly those that do most beside the lock itself
				level.ForAll(t)
			}
			t.Parallel()
			needs := neededBy(t, k)
			onOutermost(t, func(t *testing.T, p redistest.Program) {
				t.Parallel()
				on := aclMasters(t, p, max(k.masters, 1))
				rule := k.rule(on.all[0])
				t.Run("nothing", func(t *testing.T) {
					k.without(t, on, "limited", rule, "nothing", "")
					for _, srv := range on.all {
						require.Empty(t, refused(t, srv))
					}
				})
				for i, word := range strings.Fields(rule) {
					fails, ok := needs[word]
					if k.masters > 1 && !ok && strings.ContainsAny(word[:1], "~&") {
						continue // as on a single server
					}
					require.True(t, ok || k.masters > 1, "%s is not in the table", word)
					t.Run(word, func(t *testing.T) { k.without(t, on, fmt.Sprint("limited-", i), rule, word, fails) })
				}
			})
		})
	}
}

// aclNames is where the names of locks come from: each operation has one of its own.
var aclNames atomic.Int64

// without runs all operations as a user who has the rule without a word of it.
func (k *aclKind) without(t *testing.T, on aclServers, user, rule, word, fails string) {
	on.permit(t, user, rule)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, op := range k.ops {
		for tries := 1; k.perform(ctx, t, on, user, rule, word, fails, op); tries++ {
			require.Less(t, tries, 10, "%s: its lease ends before it is renewed", op.name)
		}
	}
	if k.also != nil && word == "nothing" {
		k.also(&aclRun{T: t, ctx: ctx, kind: k, on: on, me: newClient(t, on.connect(user)[0], nil), them: on.others[0]})
	}
	for _, srv := range on.all {
		if !on.cluster { // where it is as on a single server
			left, err := look(ctx, srv.Client(t))
			require.NoError(t, err)
			require.NoError(t, left.withTTL())
		}
	}
}

// perform runs an operation as a user who has the rule without a word of it. late says that it shows nothing, because a short
// lease ended before it was renewed: that is up to the speed of the machine.
func (k *aclKind) perform(ctx context.Context, t *testing.T, on aclServers, user, rule, word, fails string, op aclOp) (late bool) {
	s := &aclRun{T: t, ctx: ctx, kind: k, on: on, name: fmt.Sprint("orders:", aclNames.Add(1)), them: on.others[0]}
	for _, rdb := range on.connect(user) {
		s.mine = append(s.mine, newClient(t, rdb, &holdfast.Options{Linger: time.Millisecond, RetryBudget: 3 * time.Second}))
	}
	s.me = s.mine[0]
	var skip, may bool
	if k.chance != nil {
		if skip, may = k.chance(op.name, word); skip {
			return false
		}
	}
	do := op.prepare(s)
	on.permit(t, user, without(rule, word))
	for _, srv := range on.all {
		srv.Command(t, "SCRIPT", "FLUSH") // so that the text must be sent
	}
	err := do()
	on.permit(t, user, rule)
	// On a busy machine a wait is long enough for a poll.
	may = may || strings.Contains(op.name, "wait") && k.poll != nil && strings.HasPrefix(word, "+") &&
		strings.Contains(k.poll.Text(), "'"+strings.ToUpper(word[1:])+"'")
	bad := slices.Contains(strings.Split(fails, ", "), op.name) || may && err != nil
	if late = !bad && op.name == "renew" && err != nil && strings.HasSuffix(err.Error(), notInTime); !late {
		s.judge(op.name, err, bad)
	}
	s.ends(op.name, err)
	return late
}

// notInTime ends the error of a hold that nobody renewed.
const notInTime = "the lease could not be renewed in time"

// ends gives back what is held. After a failed acquisition of a plain lock nothing stands at all.
func (s *aclRun) ends(op string, err error) {
	for _, h := range slices.Backward(s.holds) {
		_ = h.Unlock(s.ctx)
	}
	for _, end := range s.after {
		require.NoError(s, end(), op)
	}
	for _, c := range s.mine {
		require.NoError(s, c.Close(s.ctx))
	}
	if err != nil && s.kind.name == "rlock" && !s.on.cluster && (op == "lock" || op == "wait") {
		require.EqualValues(s, 0, s.on.all[0].Command(s.T, "EXISTS", s.name), op)
	}
}

// judge: an operation that needs what was taken away says so, and the others work.
func (s *aclRun) judge(op string, err error, fails bool) {
	if !fails {
		require.NoError(s, err, op)
		return
	}
	require.Error(s, err, "%s is permitted", op)
	require.NoError(s, s.ctx.Err(), "%s: %v", op, err)
	plain := s.kind.name == "rlock"
	late := op == "renew" && strings.HasSuffix(err.Error(), notInTime) // no renewal was answered
	require.True(s, late || aboutPermissions(err) || !plain && quotesRefusal(err), "%s: %v", op, err)
	var e *holdfast.Error
	if op == "renew" && errors.Is(err, holdfast.ErrLost) {
		return
	}
	require.True(s, errors.As(err, &e), "%s: %v", op, err)
	require.Equal(s, s.name, e.Name)
	if said, ok := map[string]string{"lock": "lock", "re-enter": "lock", "unlock": "unlock", "extend": "extend",
		"force unlock": "force unlock"}[op]; ok && plain {
		require.Equal(s, said, e.Op)
	}
}

// aboutPermissions: the servers have words of their own for it in each version; these are the library's.
func aboutPermissions(err error) bool {
	return strings.Contains(err.Error(), "this user lacks a permission") || strings.Contains(err.Error(), "permit this user")
}

// quotesRefusal: what the servers said stands in the error.
func quotesRefusal(err error) bool {
	return slices.ContainsFunc([]string{"NOPERM", "user executing the script", "ACL failure"},
		func(words string) bool { return strings.Contains(err.Error(), words) })
}

// neededBy reads the kind's table in docs/security.md: permissions, and which operations fail without any one of them.
func neededBy(t *testing.T, k *aclKind) map[string]string {
	text, err := os.ReadFile("../docs/security.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), k.table)
	require.True(t, ok, "docs/security.md has no table of %s", k.name)
	_, table, _ = strings.Cut(table, "\n|")
	table, _, _ = strings.Cut("|"+table, "\n\n")
	needs := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| (`.*?`) \\| ([^|]*)\\|").FindAllStringSubmatch(table, -1) {
		for word := range strings.FieldsSeq(strings.ReplaceAll(m[1], "`", "")) {
			needs[strings.ReplaceAll(word, `\|`, "|")] = strings.TrimSpace(m[2])
		}
	}
	return needs
}

// TestSecurityDocNamesOnlyWhatIsGiven: each permission in the tables is in a rule, and each operation is tried.
func TestSecurityDocNamesOnlyWhatIsGiven(t *testing.T) {
	srv := redistest.Start(t)
	for _, k := range aclKinds {
		tried := []string{""}
		for _, op := range k.ops {
			tried = append(tried, op.name)
		}
		for word, fails := range neededBy(t, k) {
			if srv.Major() >= 7 {
				require.Contains(t, strings.Fields(k.rule(srv)), word, k.name)
			}
			require.Subset(t, tried, strings.Split(fails, ", "), "%s: %s", k.name, word)
		}
	}
}
