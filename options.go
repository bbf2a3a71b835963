package holdfast

import (
	"log/slog"
	"math"
	"time"
)

// Defaults of [Options].
const (
	DefaultLease       = 30 * time.Second
	DefaultRetryBudget = 5 * time.Second
	DefaultLinger      = 2 * time.Second
)

const (
	// minLease is the shortest lease that anybody can be granted: 1.96 ms of it are trusted, see [watchdog.Trust]. Of a shorter one not
	// even a millisecond is left, and the answer has to come within that.
	minLease = 4 * time.Millisecond
	// maxLease leaves room for rounding up. It is below the 2^53 ms up to which a script counts exactly.
	maxLease = math.MaxInt64 - time.Millisecond
)

// Options are the settings of a [Client]. Zero fields stand for their defaults.
type Options struct {
	// Lease is how long a lock outlives a holder that died. While the holder lives, the lease is
	// renewed every third of its length. Default 30 s, at least 4 ms. Below about 100 ms a busy
	// machine loses locks.
	Lease time.Duration
	// RetryBudget is how long one operation repeats itself when Redis does not answer, or answers
	// that it cannot serve now (loading, failing over), before the operation returns the error.
	// Default 5 s.
	//
	// The budget also bounds the wait for a connection, which is at least a second. Where the
	// connection waits for an answer, go-redis's ReadTimeout comes on top. The budget bounds Unlock as
	// a whole. TryLock does not repeat itself. A client that is closing takes a second of the budget at
	// most. Renewals do not depend on it: they are tried until the hold cannot be trusted any more.
	RetryBudget time.Duration
	// Linger is how long a subscription stays after its last waiter left, in case another one
	// comes. Default 2 s.
	Linger time.Duration
	// Logger receives what no caller is there to learn: locks lost, background releases that
	// failed. Default: silent.
	//
	// It runs in a goroutine of its own, one record after another, and may be slow, block or panic.
	// Only Close waits for it, until the context of Close ends. While a thousand records wait, further
	// ones are only counted. The next record has their number as "dropped".
	Logger *slog.Logger
}

// withDefaults returns a checked copy; the caller's struct is never changed.
func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Lease == 0 {
		opts.Lease = DefaultLease
	}
	if opts.RetryBudget == 0 {
		opts.RetryBudget = DefaultRetryBudget
	}
	if opts.Linger == 0 {
		opts.Linger = DefaultLinger
	}
	if err := checkLease("Options.Lease", opts.Lease); err != nil {
		return opts, err
	}
	if opts.RetryBudget < 0 {
		return opts, invalid("Options.RetryBudget is %v; use a positive duration, or 0 for the default of %v",
			opts.RetryBudget, DefaultRetryBudget)
	}
	if opts.Linger < 0 {
		return opts, invalid("Options.Linger is %v; use a positive duration, or 0 for the default of %v",
			opts.Linger, DefaultLinger)
	}
	return opts, nil
}

func checkLease(field string, d time.Duration) error {
	if d < minLease {
		return invalid("%s is %v; a lease is at least %v, and 30s is a good choice", field, d, minLease)
	}
	if d > maxLease {
		return invalid("%s is %v; a lease is at most %v, and 30s is a good choice", field, d, maxLease)
	}
	return nil
}

// Option changes one acquisition. An option that is given to a kind's New is the default of all
// acquisitions of that lock.
type Option func(*config)

// config is what the options of one acquisition amount to.
type config struct {
	wait          time.Duration
	waitSet       bool
	lease         time.Duration
	renew         bool
	handOff       bool
	replicas      replicas
	atLeast       time.Duration // that the lock stays taken; 0: as long as it is held
	masterTimeout time.Duration
	trustRestarts bool
	err           error // of the first bad option
}

func (c *config) refuse(err error) {
	if c.err == nil {
		c.err = err
	}
}

// Wait bounds the waiting. After d, Lock returns [ErrNotAcquired], or [ErrUnavailable] if Redis has
// not answered. 0 tries once. The hold's context does not inherit this limit. Default: only the
// context bounds the wait.
func Wait(d time.Duration) Option {
	return func(c *config) {
		if d < 0 {
			c.refuse(invalid("Wait is %v; use 0 to try once, or a positive duration", d))
		}
		c.wait, c.waitSet = d, true
	}
}

// Lease sets the lease of this hold, from 4 ms up, rounded up to whole milliseconds. It is renewed
// like the default one unless NoRenewal is given too. A re-entry never shortens the lease of the
// hold that it enters.
func Lease(d time.Duration) Option {
	return func(c *config) {
		if err := checkLease("Lease", d); err != nil {
			c.refuse(err)
		}
		c.lease = d
	}
}

// NoHandoff keeps this acquisition out of hand-offs within the process. It asks the server for the
// lock, and its Unlock gives the lock back to the server. It changes nothing for a kind that never
// hands off.
func NoHandoff() Option {
	return func(c *config) { c.handOff = false }
}

// NoRenewal makes the hold a plain lease, which nobody renews. The hold is lost when the lease has
// run out: its context ends with [ErrLost], whose text then says so.
//
// A re-entry without renewal into a renewed hold stays renewed. A renewed re-entry into a plain
// lease has that lease renewed until the re-entry ends. A plain lease is not handed on.
func NoRenewal() Option {
	return func(c *config) { c.renew = false }
}

// MasterTimeout is how long a lock that several masters grant together waits for each of them.
// Default [DefaultMasterTimeout], or a quarter of the lease if that is shorter. A master that is
// slower is not waited for again until it has answered. It changes nothing for other kinds.
//
// Give all who use the lock the same timeout. An election lasts at most four timeouts. A holder
// takes the elections of others to last no longer than its own would, or than they would by
// default.
func MasterTimeout(d time.Duration) Option {
	return func(c *config) {
		if d <= 0 {
			c.refuse(invalid("MasterTimeout is %v; use a positive duration, much shorter than the lease", d))
		}
		c.masterTimeout = d
	}
}

// TrustRestarts lets masters vote that were started less than a lease ago. By default their votes
// do not count, because a master that has lost its data may have granted the lock to somebody else
// before. Use it where every master writes each change to its disk before it answers (appendonly
// yes, appendfsync always). It is for locks that several masters grant together, and changes
// nothing for other kinds.
func TrustRestarts() Option {
	return func(c *config) { c.trustRestarts = true }
}
