package engine

import (
	"log/slog"
	"math"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/waitwatch"
)

// Defaults of [Options], and the label that stands for none. Package holdfast shows the same values.
const (
	DefaultLease       = 30 * time.Second
	DefaultRetryBudget = 5 * time.Second
	DefaultLinger      = 2 * time.Second
	DefaultLongWait    = 10 * time.Second
	NoLabel            = "-"
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

// Options are what users know as holdfast.Options, which has the same fields and converts to them. (An alias would have
// the docs of users show fields of a package that they cannot import.)
type Options struct {
	Lease       time.Duration
	RetryBudget time.Duration
	Linger      time.Duration
	Logger      *slog.Logger
	Label       string
	LongWait    time.Duration
	Observer    *event.Observer

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
	switch opts.Label {
	case "":
		opts.Label = waitwatch.DefaultLabel()
	case NoLabel:
		opts.Label = ""
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
	if len(opts.Prefix) >= keys.MaxName {
		return opts, errs.Invalid("Options.Prefix has %d bytes, which leaves no room for names of at most %d with the prefix; use a shorter one",
			len(opts.Prefix), keys.MaxName)
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
