package holdfastmigrate_test

import (
	"context"
	"database/sql"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	conformance "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	holdfastmigrate "github.com/holdfast-go/holdfast/adapters/migrate"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// hooked is a real driver that calls a function before each migration, and one when the version was read.
type hooked struct {
	database.Driver
	before, read func()
}

func (h *hooked) Version() (int, bool, error) {
	version, dirty, err := h.Driver.Version()
	if h.read != nil {
		h.read()
	}
	return version, dirty, err
}

func (h *hooked) Run(migration io.Reader) error {
	if h.before != nil {
		h.before()
	}
	return h.Driver.Run(migration)
}

// open opens the database in dir once more, as another process would.
func open(t *testing.T, dir string, before func()) *hooked {
	db, err := sql.Open("sqlite", filepath.Join(dir, "db")+"?_pragma=busy_timeout(30000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) }) // which most tests have done
	d, err := sqlite.WithInstance(db, &sqlite.Config{})
	require.NoError(t, err)
	return &hooked{Driver: d, before: before}
}

func newDriver(t *testing.T, db database.Driver, timeout time.Duration, opts ...holdfast.Option) *holdfastmigrate.Driver {
	return holdfastmigrate.New(db, rlock.New(adaptertest.Client(t), t.Name()), timeout, opts...)
}

// newMigrate has two migrations until the test ends. The second one is empty, as golang-migrate reads ahead in a goroutine.
func newMigrate(t *testing.T, d database.Driver) *migrate.Migrate {
	src, err := iofs.New(fstest.MapFS{
		"m/1_a.up.sql": {Data: []byte("CREATE TABLE IF NOT EXISTS a (id INTEGER)")},
		"m/2_b.up.sql": {},
	}, "m")
	require.NoError(t, err)
	m, err := migrate.NewWithInstance("iofs", src, "sqlite", d)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = m.Close() })
	return m
}

// TestConformance is golang-migrate's own test of drivers.
func TestConformance(t *testing.T) {
	d := newDriver(t, open(t, t.TempDir(), nil), 0)
	conformance.Test(t, d, []byte("CREATE TABLE a (id INTEGER)"))
	require.ErrorIs(t, d.Unlock(), database.ErrNotLocked)
	require.NoError(t, d.Close())
	require.Error(t, d.Lock())
	adaptertest.RequireFree(t, t.Name())
}

// up migrates in several processes at once.
func up(t *testing.T, driver func(db *hooked) database.Driver, section *adaptertest.Section, stay time.Duration) (errs []error) {
	dir := t.TempDir()
	done := make(chan error, 3)
	for range 3 {
		m := newMigrate(t, driver(open(t, dir, func() { section.Linger(context.Background(), stay) })))
		go func() { done <- m.Up() }()
	}
	for range 3 {
		errs = append(errs, adaptertest.Receive(t, "the end of Up", done))
	}
	return errs
}

// TestOneAtATime: of three processes one migrates, and the others find nothing to do.
func TestOneAtATime(t *testing.T) {
	var section adaptertest.Section
	errs := up(t, func(db *hooked) database.Driver { return newDriver(t, db, time.Minute) }, &section, 50*time.Millisecond)
	require.ElementsMatch(t, []error{nil, migrate.ErrNoChange, migrate.ErrNoChange}, errs)
	require.Equal(t, 2, section.Runs(), "each migration has run once")
	require.Equal(t, 1, section.Most())
	adaptertest.RequireFree(t, t.Name())
}

// TestOneAtATimeControl: SQLite's driver itself lets two processes migrate that both read the version before either changes it.
func TestOneAtATimeControl(t *testing.T) {
	var section adaptertest.Section
	var reading sync.WaitGroup
	reading.Add(3)
	up(t, func(db *hooked) database.Driver {
		var once sync.Once
		db.read = func() {
			once.Do(reading.Done)
			reading.Wait()
		}
		return db
	}, &section, time.Minute)
	require.Greater(t, section.Most(), 1)
}

// TestLoss: after the loss no migration begins, the version is that of the last one, and it is clean. The
// lock of the one who came after it is not freed. In the end the error of Up is that of Unlock, although all has run.
func TestLoss(t *testing.T) {
	for last, name := range map[int]string{1: "", 2: "in the end"} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			var d *holdfastmigrate.Driver
			d = newDriver(t, open(t, t.TempDir(), func() {
				if runs++; runs < last {
					return
				}
				require.Equal(t, last, runs, "the next migration begins")
				adaptertest.Lose(t, t.Name())
				if last == 1 {
					adaptertest.Eventually(t, "the holder knows", func() bool { return d.SetVersion(1, true) != nil })
				}
			}), 0)
			require.ErrorIs(t, newMigrate(t, d).Up(), holdfast.ErrLost)
			adaptertest.RequireStrangers(t, t.Name())
			version, dirty, err := d.Version()
			require.NoError(t, err)
			require.Equal(t, last, version)
			require.False(t, dirty)
		})
	}
}

// TestTaken: both errors are told from others. The Driver itself is not locked twice.
func TestTaken(t *testing.T) {
	dir := t.TempDir()
	d := newDriver(t, open(t, dir, nil), 0)
	require.NoError(t, d.Lock())
	require.Equal(t, database.ErrLocked, d.Lock())
	err := newMigrate(t, newDriver(t, open(t, dir, nil), 0, holdfast.Wait(0))).Up()
	require.ErrorIs(t, err, database.ErrLocked)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.Error(t, newDriver(t, open(t, dir, nil), time.Millisecond).Lock(), "it gives up by itself")
	require.NoError(t, d.Close())
	adaptertest.RequireFree(t, t.Name())
}

// naive is a driver whose Lock waits for as long as it takes.
type naive struct {
	database.Driver
	lock    holdfast.Locker
	granted chan *holdfast.Hold
}

func (n *naive) Lock() error {
	hold, err := n.lock.Lock(context.Background())
	if err == nil {
		n.granted <- hold
	}
	return err
}

// TestLateGrant: golang-migrate gives up before the Driver does. Nothing is left once Migrate is closed.
// Another driver is granted the lock then, and nobody unlocks it.
func TestLateGrant(t *testing.T) {
	for name, control := range map[string]bool{"": false, "control": true} {
		t.Run(name, func(t *testing.T) {
			other := kindtest.Lock(t, rlock.New(adaptertest.Client(t), t.Name()))
			db := open(t, t.TempDir(), nil)
			granted := make(chan *holdfast.Hold, 1)
			var d database.Driver = newDriver(t, db, time.Minute)
			if control {
				d = &naive{db, rlock.New(adaptertest.Client(t), t.Name()), granted}
			}
			m := newMigrate(t, d)
			m.LockTimeout = 50 * time.Millisecond
			require.ErrorIs(t, m.Up(), migrate.ErrLockTimeout)
			require.NoError(t, kindtest.Err(m.Close()))
			require.NoError(t, other.Unlock(t.Context()))
			if control {
				hold := adaptertest.Receive(t, "the late grant", granted)
				require.True(t, adaptertest.Taken(t, t.Name()))
				require.NoError(t, hold.Unlock(t.Context()))
				return
			}
			adaptertest.RequireFree(t, t.Name()) // Close has waited for Lock
		})
	}
}

// TestOpen: what the driver opens has the lock too.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	d := newDriver(t, open(t, dir, nil), 0)
	defer d.Close()
	opened, err := d.Open("sqlite://" + filepath.Join(dir, "other"))
	require.NoError(t, err)
	require.NoError(t, opened.Lock())
	require.True(t, adaptertest.Taken(t, t.Name()))
	require.NoError(t, opened.Unlock())
	require.NoError(t, opened.Close())
	require.ErrorIs(t, holdfastmigrate.New(d, nil, 0).Lock(), holdfast.ErrInvalid)
	kindtest.Tells(t, newDriver(t, nil, 0).Lock(), holdfast.ErrInvalid, "db is nil; pass New the driver of the database")
}
