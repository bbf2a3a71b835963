package peers_test

import (
	"context"
	"database/sql"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/pgtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// onAllServers runs a test on a server of each version there is.
func onAllServers(t *testing.T, test func(t *testing.T, srv *redistest.Server)) {
	for _, p := range redistest.Programs(t) {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			test(t, redistest.Start(t, redistest.Exec(p.Path)))
		})
	}
}

func redsyncSide(rdb *redis.Client) side {
	return side{"redsync", func(ctx context.Context, work job) error { return beforeRedsync(ctx, rdb, work) }}
}

// TestFleetOfRedsync: its programs and ours work under one name, and never two at a time. redsync gives up
// after 32 tries; then the program tries again.
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

// The controls of both: without the option ours get errors in place of a lock, and with a script that
// takes a string for nothing two are inside, and the storm sees them.
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

// TestMoveFromAdvisory: the same for PostgreSQL. The control leaves the version between out: then two are
// inside.
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
