package engine

import (
	"errors"
	"log/slog"
	"math"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/watchdog"
)

// Defaults of [Options]. Package holdfast shows the same numbers.
const (
	DefaultLease       = 30 * time.Second
	DefaultRetryBudget = 5 * time.Second
	DefaultLinger      = 2 * time.Second
	DefaultLongWait    = 10 * time.Second
)

const (
	// minLease is the shortest lease that anybody can be granted: 1.96 ms of it are trusted, see
	// [watchdog.Trust]. Of a shorter one not even a millisecond is left, and the answer has to come
	// within that.
	minLease = 4 * time.Millisecond
	// maxLease leaves room for rounding up. It is below the 2^53 ms up to which a script counts
	// exactly.
	maxLease = math.MaxInt64 - time.Millisecond
)

// Options are what users know as holdfast.Options. The two structs have the same fields. (They do not
// convert to each other: the types of Observer differ, because each has the events of its package.)
type Options struct {
	Lease       time.Duration
	RetryBudget time.Duration
	Linger      time.Duration
	Logger      *slog.Logger
	Label       string
	LongWait    time.Duration
	Observer    *notify.Observer

	Prefix        string
	ClassicPubSub bool
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
	if opts.LongWait == 0 {
		opts.LongWait = DefaultLongWait
	}
	if err := checkLease("Options.Lease", opts.Lease); err != nil {
		return opts, err
	}
	if err := checkLabel(opts.Label); err != nil {
		return opts, err
	}
	if opts.LongWait > 0 && opts.LongWait < minLongWait {
		return opts, errs.Invalid("Options.LongWait is %v; use at least %v, 0 for the default of %v, or a negative duration to turn it off",
			opts.LongWait, minLongWait, DefaultLongWait)
	}
	if opts.RetryBudget < 0 {
		return opts, errs.Invalid("Options.RetryBudget is %v; use a positive duration, or 0 for the default of %v",
			opts.RetryBudget, DefaultRetryBudget)
	}
	if opts.Linger < 0 {
		return opts, errs.Invalid("Options.Linger is %v; use a positive duration, or 0 for the default of %v",
			opts.Linger, DefaultLinger)
	}
	if err := keys.OneSlot("Options.Prefix", opts.Prefix); err != nil {
		return opts, errs.Both(errs.ErrInvalid, err)
	}
	return opts, nil
}

// minLongWait keeps who looks at long waits from looking all the time.
const minLongWait = 10 * time.Millisecond

func checkLabel(label string) error {
	switch {
	case keys.IsLabel(label):
		return nil
	case len(label) > keys.MaxLabel:
		return errs.Invalid("Options.Label has %d bytes; use at most %d, such as the name of the service and its machine",
			len(label), keys.MaxLabel)
	case !utf8.ValidString(label):
		return errs.Invalid("Options.Label is %q, which is not UTF-8; use text", label)
	}
	return errs.Invalid("Options.Label is %q, and a character in it cannot be printed; use letters, digits, spaces and signs", label)
}

func checkLease(field string, d time.Duration) error {
	if d < minLease {
		return errs.Invalid("%s is %v; a lease is at least %v, and 30s is a good choice", field, d, minLease)
	}
	if d > maxLease {
		return errs.Invalid("%s is %v; a lease is at most %v, and 30s is a good choice", field, d, maxLease)
	}
	return nil
}

// Option changes one acquisition.
type Option func(*Settings)

// Settings is what the options of one acquisition amount to.
type Settings struct {
	wait          time.Duration
	waitSet       bool
	Lease         time.Duration
	renew         bool
	handOff       bool
	keep          time.Duration // for which the lock stays with the client after the last unlock; 0: it does not
	Replicas      remote.Replicas
	atLeast       time.Duration // that the lock stays taken; 0: as long as it is held
	MasterTimeout time.Duration // of kinds that ask several masters
	TrustRestarts bool          // of the same
	strings       bool          // a string at the key is a lock of another library
	Count         int           // how many permits are wanted, of kinds that have several for an owner; else 1
	reveal        func(any)     // is told which Lock it is, and nothing is asked; nil: the usual
	part          bool          // the call is a part of another one, see [Part]
	err           error         // of the first bad option
}

// moves reports whether a lock that is wanted so, or is had so, may be another's of this client as it stands.
func (c *Settings) moves() bool { return c.renew && c.atLeast == 0 && !c.strings }

// errRevealed is what a call comes to that only asked which lock it is, see [Reveal].
var errRevealed = errors.New("it was only asked which lock it is")

// Refuse says what is wrong with an option. The first such error counts.
func (c *Settings) Refuse(err error) {
	if c.err == nil {
		c.err = err
	}
}

// Add applies options, the later ones winning, and returns what is wrong with the first bad one.
func (c *Settings) Add(opts []Option) error {
	for i, opt := range opts {
		if opt == nil {
			c.Refuse(errs.Invalid("option %d is nil; leave it out", i+1))
			continue
		}
		opt(c)
	}
	return c.err
}

// WithoutHold is Settings of a kind that nobody holds, for [Settings.AddWithoutHold].
func WithoutHold(lease time.Duration) Settings {
	return Settings{Lease: lease, renew: true, handOff: true}
}

// AddWithoutHold is Add, and refuses options that are about holds.
func (c *Settings) AddWithoutHold(kind string, opts []Option) error {
	if err := c.Add(opts); err != nil {
		return err
	}
	for _, about := range []struct {
		given  bool
		option string
	}{
		{!c.renew, "NoRenewal"}, {!c.handOff, "NoHandoff"}, {c.keep != 0, "Keep"}, {c.atLeast != 0, "HoldAtLeast"},
		{c.Replicas != remote.Replicas{}, "WithReplicas"}, {c.MasterTimeout != 0, "MasterTimeout"}, {c.TrustRestarts, "TrustRestarts"},
		{c.strings, "RespectStrings"},
	} {
		if about.given {
			c.Refuse(errs.Invalid("%s is for those who hold something, and nobody holds a %s; leave the option out", about.option, kind))
		}
	}
	return c.err
}

// AtLeast is for how long the lock is to stay taken; 0: for as long as it is held.
func (c *Settings) AtLeast() time.Duration { return c.atLeast }

// Count is how many permits are wanted at once, all or none. It is for the kind that has some.
func Count(n int) Option { return func(c *Settings) { c.Count = n } }

// Wait is what users know as holdfast.Wait.
func Wait(d time.Duration) Option {
	return func(c *Settings) {
		if d < 0 {
			c.Refuse(errs.Invalid("Wait is %v; use 0 to try once, or a positive duration", d))
		}
		c.wait, c.waitSet = d, true
	}
}

// Lease is what users know as holdfast.Lease.
func Lease(d time.Duration) Option {
	return func(c *Settings) {
		if err := checkLease("Lease", d); err != nil {
			c.Refuse(err)
		}
		c.Lease = d
	}
}

// NoHandoff is what users know as holdfast.NoHandoff.
func NoHandoff() Option {
	return func(c *Settings) { c.handOff = false }
}

// Keep is what users know as holdfast.Keep.
func Keep(d time.Duration) Option {
	return func(c *Settings) {
		if d < 0 || d > maxLease {
			c.Refuse(errs.Invalid("Keep is %v; use a positive duration, such as 1s, or 0 to keep nothing", d))
		}
		c.keep = d
	}
}

// RespectStrings is what users know as holdfast.RespectStrings.
func RespectStrings() Option {
	return func(c *Settings) { c.strings = true }
}

// NoRenewal is what users know as holdfast.NoRenewal.
func NoRenewal() Option {
	return func(c *Settings) { c.renew = false }
}

// HoldAtLeast is what users know as holdfast.HoldAtLeast.
func HoldAtLeast(d time.Duration) Option {
	return func(c *Settings) {
		switch {
		case d < minAtLeast:
			c.Refuse(errs.Invalid("HoldAtLeast is %v; use at least %v, such as half of the period, or leave it out",
				d, minAtLeast))
		case d > maxLease:
			c.Refuse(errs.Invalid("HoldAtLeast is %v; use at most %v, such as half of the period", d, maxLease))
		}
		c.atLeast = d
	}
}

const minAtLeast = time.Millisecond

// Stands is for how long the lock is asked for.
func (c *Settings) Stands() time.Duration { return max(c.Lease, c.atLeast) }

// WithReplicas is what users know as holdfast.WithReplicas.
func WithReplicas(n int, timeout time.Duration) Option {
	return func(c *Settings) { c.waitFor("WithReplicas", remote.Replicas{N: n, Timeout: timeout}) }
}

// WithReplicasOnDisk is what users know as holdfast.WithReplicasOnDisk.
func WithReplicasOnDisk(n int, timeout time.Duration) Option {
	return func(c *Settings) {
		c.waitFor("WithReplicasOnDisk", remote.Replicas{N: n, Timeout: timeout, OnDisk: true})
	}
}

func (c *Settings) waitFor(option string, r remote.Replicas) {
	if r.N < 1 {
		c.Refuse(errs.Invalid("%s has n = %d; use at least 1, or leave the option out", option, r.N))
	}
	if r.Timeout <= 0 {
		c.Refuse(errs.Invalid("%s has timeout = %v; use a positive duration, such as 100ms", option, r.Timeout))
	}
	c.Replicas = r
}

// checkReplicas looks at what only the whole of an acquisition shows.
func checkReplicas(r remote.Replicas, lease time.Duration) error {
	if trust := watchdog.Trust(lease); r.N > 0 && r.Timeout >= trust {
		return errs.Invalid("timeout of WithReplicas is %v, and a lease of %v is trusted for %v; use a shorter timeout or a longer lease",
			r.Timeout, lease, trust)
	}
	return nil
}
