package engine

import (
	"errors"
	"math/bits"
	"time"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/watchdog"
)

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
	onError       bool          // [Settings.atLeast] is given up if the work fails
	MasterTimeout time.Duration // of kinds that ask several masters
	TrustRestarts bool          // of the same
	strings       bool          // a string at the key is a lock of another library
	Count         int           // how many permits are wanted, of kinds that have several for an owner; else 1
	identify      func(any)     // gets the Lock, and nothing is sent; nil: an ordinary call
	part          bool          // the call is a part of another one, see [Part]
	given         Given         // the options that are given, whatever their values
	err           error         // of the first bad option
}

// Given is a set of options.
type Given uint16

// The options, in the order of their names.
const (
	GivenWait Given = 1 << iota
	GivenLease
	givenNoRenewal
	givenNoHandoff
	givenKeep
	givenAtLeast
	givenOnError
	givenReplicas
	givenOnDisk
	givenMasterTimeout
	givenTrustRestarts
	givenStrings
)

var optionNames = [...]string{
	"Wait", "Lease", "NoRenewal", "NoHandoff", "Keep", "HoldAtLeast", "ReleaseOnError", "Replicas", "ReplicasOnDisk",
	"MasterTimeout", "TrustRestarts", "RespectStrings",
}

// String names the first one.
func (g Given) String() string { return optionNames[bits.TrailingZeros16(uint16(g))] }

// moves reports whether a lock that is wanted so, or is had so, may be another's of this client as it stands.
func (c *Settings) moves() bool { return c.renew && c.atLeast == 0 && !c.strings }

// errIdentified is the error of a call that only identifies the lock, see [IdentifyLock].
var errIdentified = errors.New("the call only identifies the lock")

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

// AddWithoutHold is Add, and refuses options that are about holds, and those of the other call: New takes [GivenLease],
// Wait takes [GivenWait]. What an option is for counts before its value.
func (c *Settings) AddWithoutHold(kind string, takes Given, opts []Option) error {
	err := c.Add(opts)
	switch unfit := c.given &^ takes; {
	case unfit == 0:
		return err
	case unfit&GivenWait != 0:
		return errs.Invalid("Wait is not for New; give it to the method Wait of the %s", kind)
	case unfit&GivenLease != 0:
		return errs.Invalid("Lease is not for Wait; give it to New of the %s", kind)
	default:
		return errs.Invalid("%v is for a lock that somebody holds, and nobody holds a %s; leave the option out", unfit, kind)
	}
}

// Count is how many permits are wanted at once, all or none. It is for the kind that has some.
func Count(n int) Option { return func(c *Settings) { c.Count = n } }

// Wait is what users know as holdfast.Wait.
func Wait(d time.Duration) Option {
	return func(c *Settings) {
		if d < 0 {
			c.Refuse(errs.Invalid("Wait is %v; use 0 to try once, or a positive duration", d))
		}
		c.wait, c.waitSet = d, true
		c.given |= GivenWait
	}
}

// Lease is what users know as holdfast.Lease.
func Lease(d time.Duration) Option {
	return func(c *Settings) {
		if err := checkLease("Lease", d); err != nil {
			c.Refuse(err)
		}
		c.Lease = d
		c.given |= GivenLease
	}
}

// NoHandoff is what users know as holdfast.NoHandoff.
func NoHandoff() Option {
	return func(c *Settings) { c.handOff = false; c.given |= givenNoHandoff }
}

// Keep is what users know as rlock.Keep.
func Keep(d time.Duration) Option {
	return func(c *Settings) {
		switch {
		case d < 0:
			c.Refuse(errs.Invalid("Keep is %v; use a positive duration, such as 1s, or 0 to keep nothing", d))
		case d > maxLease:
			c.Refuse(errs.Invalid("Keep is %v; use at most %v, such as 1s", d, maxLease))
		}
		c.keep = d
		c.given |= givenKeep
	}
}

// RespectStrings is what users know as rlock.RespectStrings.
func RespectStrings() Option {
	return func(c *Settings) { c.strings = true; c.given |= givenStrings }
}

// NoRenewal is what users know as holdfast.NoRenewal.
func NoRenewal() Option {
	return func(c *Settings) { c.renew = false; c.given |= givenNoRenewal }
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
		c.given |= givenAtLeast
	}
}

// ReleaseOnError is what users know as holdfast.ReleaseOnError.
func ReleaseOnError() Option {
	return func(c *Settings) { c.onError = true; c.given |= givenOnError }
}

const minAtLeast = time.Millisecond

// TTL is the lease that is requested for the lock.
func (c *Settings) TTL() time.Duration { return max(c.Lease, c.atLeast) }

// Replicas is what users know as holdfast.Replicas.
func Replicas(n int, timeout time.Duration) Option {
	return func(c *Settings) { c.waitFor(givenReplicas, remote.Replicas{N: n, Timeout: timeout}) }
}

// ReplicasOnDisk is what users know as holdfast.ReplicasOnDisk.
func ReplicasOnDisk(n int, timeout time.Duration) Option {
	return func(c *Settings) {
		c.waitFor(givenOnDisk, remote.Replicas{N: n, Timeout: timeout, OnDisk: true})
	}
}

func (c *Settings) waitFor(option Given, r remote.Replicas) {
	if r.N < 1 {
		c.Refuse(errs.Invalid("%v has n = %d; use at least 1, or leave the option out", option, r.N))
	}
	if r.Timeout <= 0 {
		c.Refuse(errs.Invalid("%v has timeout = %v; use a positive duration, such as 100ms", option, r.Timeout))
	}
	c.Replicas = r
	c.given |= option
}

// MasterTimeout is what users know as redlock.MasterTimeout.
func MasterTimeout(d time.Duration) Option {
	return func(c *Settings) {
		if d <= 0 {
			c.Refuse(errs.Invalid("MasterTimeout is %v; use a positive duration, much shorter than the lease", d))
		}
		c.MasterTimeout = d
		c.given |= givenMasterTimeout
	}
}

// TrustRestarts is what users know as redlock.TrustRestarts.
func TrustRestarts() Option {
	return func(c *Settings) { c.TrustRestarts = true; c.given |= givenTrustRestarts }
}

// checkReplicas looks at what only the whole of an acquisition shows.
func checkReplicas(r remote.Replicas, lease time.Duration) error {
	if trust := watchdog.Trust(lease); r.N > 0 && r.Timeout >= trust {
		return errs.Invalid("timeout of Replicas is %v, and a lease of %v is trusted for %v; use a shorter timeout or a longer lease",
			r.Timeout, lease, trust)
	}
	return nil
}
