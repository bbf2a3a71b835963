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
	minLease = time.Millisecond
	// maxLease leaves room for rounding up. It is below the 2^53 ms up to which a script counts exactly.
	maxLease = math.MaxInt64 - time.Millisecond
)

// Options are the settings of a [Client]. Zero fields stand for their defaults.
type Options struct {
	// Lease is how long a lock outlives a holder that died. While the holder lives it is renewed every third of it.
	// Default 30 s, at least 1 ms; below about 100 ms a busy machine will lose locks.
	Lease time.Duration
	// RetryBudget is how long one operation repeats itself when Redis does not answer, or answers that it cannot serve
	// now (loading, failing over), before it returns the error. It also bounds Unlock. Default 5 s. Renewals do not
	// depend on it: they are tried until the hold cannot be trusted any more.
	RetryBudget time.Duration
	// Linger is how long a subscription stays after its last waiter left, in case another one comes. Default 2 s.
	Linger time.Duration
	// Logger hears of what no caller is there to hear: locks lost, background releases that failed. Default: silent.
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
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
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

// Option changes one acquisition, or, given to a kind's New, the default of all acquisitions of that lock.
type Option func(*config)

// config is what the options of one acquisition amount to.
type config struct {
	wait          time.Duration
	waitSet       bool
	lease         time.Duration
	renew         bool
	handOff       bool
	replicas      replicas
	masterTimeout time.Duration
	trustRestarts bool
	err           error // of the first bad option
}

func (c *config) refuse(err error) {
	if c.err == nil {
		c.err = err
	}
}

// Wait bounds the waiting: after d, Lock returns [ErrNotAcquired]. 0 tries once. The hold's context does not inherit this
// limit. Default: only the context bounds the wait.
func Wait(d time.Duration) Option {
	return func(c *config) {
		if d < 0 {
			c.refuse(invalid("Wait is %v; use 0 to try once, or a positive duration", d))
		}
		c.wait, c.waitSet = d, true
	}
}

// Lease sets the lease of this hold, from 1 ms up, rounded up to whole milliseconds. It is renewed like the default
// one unless NoRenewal is given too. A re-entry never shortens the lease of the hold that it enters.
func Lease(d time.Duration) Option {
	return func(c *config) {
		if err := checkLease("Lease", d); err != nil {
			c.refuse(err)
		}
		c.lease = d
	}
}

// NoHandoff keeps this acquisition out of hand-offs within the process: it asks the server for the lock, and its Unlock gives
// that back to the server. For a kind that never hands off it changes nothing.
func NoHandoff() Option {
	return func(c *config) { c.handOff = false }
}

// NoRenewal makes a plain lease of the hold: nobody renews it, and it is lost when it has run out. A re-entry into a
// renewed hold stays renewed. Such a hold is not handed on.
func NoRenewal() Option {
	return func(c *config) { c.renew = false }
}

// MasterTimeout is for how long a lock that several masters grant together waits for each of them. Default [DefaultMasterTimeout], or
// a quarter of the lease if that is shorter. A master that is slower than that is not waited for again until it has answered.
// For other kinds it changes nothing.
func MasterTimeout(d time.Duration) Option {
	return func(c *config) {
		if d <= 0 {
			c.refuse(invalid("MasterTimeout is %v; use a positive duration, much shorter than the lease", d))
		}
		c.masterTimeout = d
	}
}

// TrustRestarts lets masters vote that were started less than a lease ago. Without it their votes do not count, because
// a master that has lost its data may have granted the lock to somebody else before. Use it where every master writes each change to its disk
// before it answers (appendonly yes, appendfsync always). It is for locks that several masters grant together; for other kinds it
// changes nothing.
func TrustRestarts() Option {
	return func(c *config) { c.trustRestarts = true }
}
