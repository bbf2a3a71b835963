package holdfastgoose_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock/locktesting"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	holdfastgoose "github.com/holdfast-go/holdfast/adapters/goose"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// open opens the test's database once more, as another process would.
func open(t *testing.T, dir string) *sql.DB {
	db, err := sql.Open("sqlite", filepath.Join(dir, "db")+"?_pragma=busy_timeout(30000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func newLocker(t *testing.T, opts ...holdfast.Option) *holdfastgoose.Locker {
	return holdfastgoose.New(rlock.New(adaptertest.Client(t), t.Name()), opts...)
}

// provider has two migrations: the first does what it is told to, and the second nothing.
func provider(t *testing.T, dir string, first func(ctx context.Context) error, opts ...goose.ProviderOption) *goose.Provider {
	up := func(ctx context.Context, _ *sql.DB) error { return first(ctx) }
	nothing := func(context.Context, *sql.DB) error { return nil }
	p, err := goose.NewProvider(goose.DialectSQLite3, open(t, dir), nil, append(opts,
		goose.WithDisableGlobalRegistry(true),
		goose.WithGoMigrations(
			goose.NewGoMigration(1, &goose.GoFunc{RunDB: up}, &goose.GoFunc{RunDB: nothing}),
			goose.NewGoMigration(2, &goose.GoFunc{RunDB: nothing}, &goose.GoFunc{RunDB: up}),
		))...)
	require.NoError(t, err)
	return p
}

// ready makes the table of versions, which several may not make at once.
func ready(t *testing.T, dir string) {
	require.NoError(t, kindtest.Err(provider(t, dir, nil).GetDBVersion(t.Context())))
}

// TestGoosesOwnTest: of five providers at once one does all the work: with a Locker each, or one shared as a SessionLocker.
func TestGoosesOwnTest(t *testing.T) {
	shared := newLocker(t)
	for name, with := range map[string]func(t *testing.T) goose.ProviderOption{
		"lockers":  func(t *testing.T) goose.ProviderOption { return goose.WithLocker(newLocker(t)) },
		"sessions": func(*testing.T) goose.ProviderOption { return goose.WithSessionLocker(shared) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ready(t, dir)
			var section adaptertest.Section
			locktesting.TestProviderLocking(t, func(*testing.T) *goose.Provider {
				return provider(t, dir, func(ctx context.Context) error {
					section.Linger(ctx, 50*time.Millisecond)
					return nil
				}, with(t))
			})
			require.Equal(t, 1, section.Runs())
			adaptertest.RequireFree(t, t.Name())
		})
	}
	adaptertest.RequireFree(t, t.Name())
}

// TestControl: without the Locker a migration runs in two processes at once.
func TestControl(t *testing.T) {
	dir := t.TempDir()
	ready(t, dir)
	var section adaptertest.Section
	var all sync.WaitGroup
	for range 3 {
		p := provider(t, dir, func(ctx context.Context) error {
			section.Linger(ctx, time.Minute)
			return nil
		})
		all.Go(func() { _, _ = p.Up(t.Context()) })
	}
	adaptertest.Eventually(t, "two at once", func() bool { return section.Most() > 1 })
	all.Wait()
}

// TestLoss: Up returns ErrLost with its results, Down returns it alone. The lock of the next holder is not freed.
func TestLoss(t *testing.T) {
	p := provider(t, t.TempDir(), func(context.Context) error {
		adaptertest.Lose(t, t.Name())
		return nil
	}, goose.WithLocker(newLocker(t)))
	results, err := p.Up(t.Context())
	require.ErrorIs(t, err, holdfast.ErrLost)
	require.Len(t, results, 2)
	adaptertest.RequireStrangers(t, t.Name())

	adaptertest.GiveBack(t, t.Name())
	result, err := p.Down(t.Context())
	require.ErrorIs(t, err, holdfast.ErrLost)
	require.Nil(t, result)
	adaptertest.RequireStrangers(t, t.Name())
	adaptertest.GiveBack(t, t.Name())
	version, err := p.GetDBVersion(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(1), version, "it has run all the same")
}

// TestWait: the wait ends by itself, and by the caller's context. Nothing is left.
func TestWait(t *testing.T) {
	c := adaptertest.Client(t)
	other := kindtest.Lock(t, rlock.New(c, t.Name()))
	never := func(context.Context) error {
		t.Error("it migrates without the lock")
		return nil
	}
	_, err := provider(t, t.TempDir(), never, goose.WithLocker(newLocker(t, holdfast.Wait(0)))).Up(t.Context())
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)

	// Under the hold of the lock itself, so that a Lock of the same owner would re-enter.
	ctx, cancel := context.WithTimeout(other.Context(), 100*time.Millisecond)
	defer cancel()
	under := holdfastgoose.New(rlock.New(c, t.Name()))
	require.Error(t, kindtest.Err(provider(t, t.TempDir(), never, goose.WithLocker(under)).Up(ctx)))
	require.NoError(t, other.Unlock(t.Context()))
	adaptertest.RequireFree(t, t.Name())
}

// TestNextOperation: an operation locks again while the Unlock of the one before may be under way.
func TestNextOperation(t *testing.T) {
	p := provider(t, t.TempDir(), func(context.Context) error { return nil }, goose.WithLocker(newLocker(t)))
	for range 5 {
		require.NoError(t, kindtest.Err(p.Up(t.Context())))
		require.NoError(t, kindtest.Err(p.DownTo(t.Context(), 0)))
	}
	adaptertest.RequireFree(t, t.Name())
}

// TestUnlockWithoutLock says so.
func TestUnlockWithoutLock(t *testing.T) {
	l := newLocker(t)
	require.ErrorIs(t, l.Unlock(t.Context(), nil), holdfast.ErrReleased)
	require.ErrorIs(t, l.SessionUnlock(t.Context(), nil), holdfast.ErrReleased)
	require.ErrorIs(t, holdfastgoose.New(nil).Lock(t.Context(), nil), holdfast.ErrInvalid)
}
