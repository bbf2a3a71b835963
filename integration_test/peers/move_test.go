package peers_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/pgtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// onAllServers runs a test on a server of each version there is.
func onAllServers(t *testing.T, test func(t *testing.T, srv *redistest.Server)) {
	redistest.EachProgram(t, func(t *testing.T, p redistest.Program) {
		t.Parallel()
		test(t, redistest.Start(t, redistest.Exec(p.Path)))
	})
}

func redsyncSide(rdb *redis.Client) side {
	return side{"redsync", func(ctx context.Context, work job) error { return beforeRedsync(ctx, rdb, work) }}
}

// TestFleetOfRedsync: its programs and ours never hold one name at once. redsync gives up after 32 tries; its program goes on.
func TestFleetOfRedsync(t *testing.T) {
	onAllServers(t, func(t *testing.T, srv *redistest.Server) {
		rdb, client := srv.Client(t), newClient(t, srv.Client(t))
		exclude(t, rdb, mentions("lock already taken", "failed to acquire lock", "not acquired: "), redsyncSide(rdb),
			side{"holdfast", func(ctx context.Context, work job) error { return afterRedsync(ctx, client, work) }})
	})
}

// TestFleetOfRedislock: the same, with its programs made ready for the move.
func TestFleetOfRedislock(t *testing.T) {
	onAllServers(t, func(t *testing.T, srv *redistest.Server) {
		rdb, client := srv.Client(t), newClient(t, srv.Client(t))
		exclude(t, rdb, mentions("not acquired: ", "not obtained"),
			side{"redislock", func(ctx context.Context, work job) error { return beforeRedislock(ctx, rdb, work) }},
			side{"holdfast", func(ctx context.Context, work job) error { return afterRedislock(ctx, client, work) }})
	})
}

// The controls of both: without the option ours get errors, and a script that ignores strings lets two in: the storm sees it.
func TestFleetControls(t *testing.T) {
	t.Run("without the option", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t)
		rdb, client := srv.Client(t), newClient(t, srv.Client(t))
		wrong, busy := mentions("WRONGTYPE"), mentions("lock already taken", "failed to acquire lock")
		var answers atomic.Int32
		s := &storm{T: t, rdb: rdb, enough: func(*storm) bool { return answers.Load() > 0 }, refuse: func(err error) bool {
			if wrong(err) {
				answers.Add(1)
			}
			return wrong(err) || busy(err)
		}}
		s.run(redsyncSide(rdb), side{"holdfast", func(ctx context.Context, work job) error {
			return holdfast.Do(ctx, rlock.New(client, "orders:42"), work)
		}})
	})
	t.Run("a string is nothing", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t)
		rdb, broken := srv.Client(t), srv.Client(t)
		broken.AddHook(mutant.Hook(lua.AcquireBeside, "return {0, redis.call('PTTL', KEYS[1]), -1}", "redis.call('DEL', KEYS[1])"))
		client := newClient(t, broken)
		s := &storm{T: t, rdb: rdb, refuse: func(error) bool { return true }, enough: func(s *storm) bool { return s.most.Load() > 1 }}
		s.run(redsyncSide(rdb), side{"holdfast", func(ctx context.Context, work job) error { return afterRedsync(ctx, client, work) }})
	})
}

// TestMoveFromRueidislock: a version that takes both locks stands between the old one and the new.
func TestMoveFromRueidislock(t *testing.T) {
	srv := redistest.Start(t)
	rdb, client := srv.Client(t), newClient(t, srv.Client(t))
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{srv.Addr()}}, KeyMajority: 1, FallbackSETPX: true,
	})
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	between := side{"both", func(ctx context.Context, work job) error { return whileRueidislock(ctx, locker, client, work) }}
	exclude(t, rdb, mentions("not acquired: "), between,
		side{"rueidislock", func(ctx context.Context, work job) error { return beforeRueidislock(ctx, locker, work) }})
	exclude(t, rdb, mentions("not acquired: "), between,
		side{"holdfast", func(ctx context.Context, work job) error { return afterRueidislock(ctx, client, work) }})
}

// TestMoveFromAdvisory: the same for PostgreSQL. The control leaves the version between out: then two are inside.
func TestMoveFromAdvisory(t *testing.T) {
	db, err := sql.Open("pgx", pgtest.Start(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	srv := redistest.Start(t)
	rdb, client := srv.Client(t), newClient(t, srv.Client(t))
	before := side{"advisory", func(ctx context.Context, work job) error { return beforeAdvisory(ctx, db, work) }}
	between := side{"both", func(ctx context.Context, work job) error { return whileAdvisory(ctx, db, client, work) }}
	after := side{"holdfast", func(ctx context.Context, work job) error { return afterAdvisory(ctx, client, work) }}
	exclude(t, rdb, mentions("not acquired: "), between, before)
	exclude(t, rdb, mentions("not acquired: "), between, after)

	s := &storm{T: t, rdb: rdb, refuse: mentions("not acquired: "), enough: func(s *storm) bool { return s.most.Load() > 1 }}
	s.run(before, after)
}

// newClient makes a client of the library, closed at the end of the test.
func newClient(t *testing.T, rdb redis.UniversalClient) *holdfast.Client {
	return kindtest.NewClient(t, rdb, nil)
}

// side is one version of a program: it does the work under its lock, or returns an error.
type side struct {
	name string
	run  func(ctx context.Context, work job) error
}

const (
	// shares is how often each side has to have done its work before a storm ends.
	shares = 3
	// runners is how many of each side run at the same time.
	runners = 2
)

// storm is two versions of a program at the same time, and what was seen under their locks.
type storm struct {
	*testing.T
	rdb    *redis.Client
	inside atomic.Int32 // now
	most   atomic.Int32 // that were at any time
	done   [2]atomic.Int32
	refuse func(error) bool // which errors are counted, and the program tries again; others fail the test
	errors atomic.Int32
	enough func(s *storm) bool
}

// work is a few commands long, and notes how many do it at the same time.
func (s *storm) work(context.Context) error {
	n := s.inside.Add(1)
	defer s.inside.Add(-1)
	for m := s.most.Load(); n > m && !s.most.CompareAndSwap(m, n); m = s.most.Load() {
	}
	for range 3 {
		// not under the lock's context: what is checked is that nobody else is here
		if err := s.rdb.Incr(s.Context(), "work").Err(); err != nil {
			return err
		}
	}
	return nil
}

// run lets both sides work until the storm has seen enough.
func (s *storm) run(sides ...side) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 5*patience) // locks of others let one wait while others get them
	defer cancel()
	var all errgroup.Group
	for i, side := range sides {
		for range runners {
			all.Go(func() error {
				for ctx.Err() == nil && !s.enough(s) {
					switch err := side.run(ctx, s.work); {
					case err == nil:
						s.done[i].Add(1)
					case s.refuse != nil && s.refuse(err):
						s.errors.Add(1)
					default:
						return fmt.Errorf("%s: %w", side.name, err)
					}
				}
				return nil
			})
		}
	}
	require.NoError(s, all.Wait())
	require.NoError(s, ctx.Err(), "both go on: %d and %d, %d errors, %d inside", s.done[0].Load(), s.done[1].Load(),
		s.errors.Load(), s.most.Load())
	s.Logf("%s %d, %s %d, %d refused", sides[0].name, s.done[0].Load(), sides[1].name, s.done[1].Load(), s.errors.Load())
}

// exclude runs both sides until each has had its shares, and never were two inside.
func exclude(t *testing.T, rdb *redis.Client, busy func(error) bool, sides ...side) {
	s := &storm{T: t, rdb: rdb, refuse: busy, enough: func(s *storm) bool {
		return s.done[0].Load() >= shares && s.done[1].Load() >= shares
	}}
	s.run(sides...)
	require.EqualValues(t, 1, s.most.Load())
}

// mentions is a refusal whose text has a word.
func mentions(words ...string) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(err.Error(), word) })
	}
}
