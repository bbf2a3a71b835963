package holdfastmigrate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/adapt"
)

// DefaultTimeout is how long Lock waits. It is below migrate.DefaultLockTimeout, 15 s.
const DefaultTimeout = 10 * time.Second

// Driver is a database.Driver with another lock. Make one with [New].
type Driver struct {
	database.Driver
	lock    holdfast.Locker
	timeout time.Duration
	opts    []holdfast.Option

	mu     sync.Mutex    // guards what follows; not held while waiting for the lock
	cancel func()        // ends a Lock that is under way; nil: none is
	waited chan struct{} // closed when that Lock has returned
	hold   *holdfast.Hold
	closed bool
}

var _ database.Driver = (*Driver)(nil)

// New makes a Driver of db, for migrate.NewWithInstance, and of a lock of any kind. Take one lock for
// each database. Lock waits for timeout, which must be below Migrate.LockTimeout; 0 or less is
// [DefaultTimeout]. opts are for each Lock.
func New(db database.Driver, lock holdfast.Locker, timeout time.Duration, opts ...holdfast.Option) *Driver {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return &Driver{Driver: db, lock: lock, timeout: timeout, opts: opts}
}

// Open opens another database by the driver, with the same lock.
func (d *Driver) Open(url string) (database.Driver, error) {
	db, err := d.Driver.Open(url)
	if err != nil {
		return nil, err
	}
	return New(db, d.lock, d.timeout, d.opts...), nil
}

// Lock is called by golang-migrate before it migrates. If somebody else has the lock until the timeout,
// errors.Is is true for database.ErrLocked and for [holdfast.ErrNotAcquired]. It is database.ErrLocked
// at once if this Driver is locked.
func (d *Driver) Lock() error {
	ctx, done, err := d.begin()
	if err != nil {
		return err
	}
	hold, err := adapt.Lock(ctx, d.lock, d.opts...)
	if err = done(hold, err); errors.Is(err, holdfast.ErrNotAcquired) {
		return fmt.Errorf("%w: %w", database.ErrLocked, err)
	}
	return err
}

// begin notes that Lock is under way. done ends that, and keeps what was granted in time. The context
// is for the wait only; what it bounds is not the hold.
func (d *Driver) begin() (ctx context.Context, done func(*holdfast.Hold, error) error, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.Driver == nil:
		return nil, nil, fmt.Errorf("%w: db is nil; pass New the driver of the database", holdfast.ErrInvalid)
	case d.closed:
		return nil, nil, fmt.Errorf("holdfastmigrate: the driver is closed: %w", database.ErrNotLocked)
	case d.hold != nil || d.cancel != nil:
		return nil, nil, database.ErrLocked
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.timeout)
	waited := make(chan struct{})
	d.cancel, d.waited = cancel, waited
	return ctx, func(hold *holdfast.Hold, err error) error {
		defer close(waited)
		d.mu.Lock()
		late := ctx.Err() != nil // nobody waits for it any more
		cancel()
		d.cancel = nil
		if err == nil && !late {
			d.hold = hold
		}
		d.mu.Unlock()
		if err == nil && late {
			_ = hold.Unlock(context.Background()) // bounded by itself; the client logs what fails
			return fmt.Errorf("holdfastmigrate: the lock came too late: %w", holdfast.ErrNotAcquired)
		}
		return err
	}, nil
}

// take returns the hold, and forgets it.
func (d *Driver) take() *holdfast.Hold {
	d.mu.Lock()
	defer d.mu.Unlock()
	hold := d.hold
	d.hold = nil
	return hold
}

// Unlock is called by golang-migrate afterwards. Its error is [holdfast.ErrLost] if the lock was lost. It
// frees nobody else's lock.
func (d *Driver) Unlock() error {
	hold := d.take()
	if hold == nil {
		return database.ErrNotLocked
	}
	return hold.Unlock(context.Background())
}

// SetVersion is called by golang-migrate around each migration. Before one (dirty) it returns
// [holdfast.ErrLost] if the lock is lost, and does nothing. After one it goes on, because the version is
// then true.
func (d *Driver) SetVersion(version int, dirty bool) error {
	d.mu.Lock()
	hold := d.hold
	d.mu.Unlock()
	// The deadline says so, and not the hold's context, which ends with that of Lock.
	if dirty && hold != nil && !hold.Deadline().After(time.Now()) {
		return fmt.Errorf("holdfastmigrate: version %d is not begun: %w", version, holdfast.ErrLost)
	}
	return d.Driver.SetVersion(version, dirty)
}

// Close closes the database. It ends a Lock that is under way, and gives back the lock.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	cancel, waited := d.cancel, d.waited
	d.mu.Unlock()
	if cancel != nil {
		cancel()
		<-waited
	}
	err := d.Driver.Close()
	if hold := d.take(); hold != nil {
		err = errors.Join(err, hold.Unlock(context.Background()))
	}
	return err
}
