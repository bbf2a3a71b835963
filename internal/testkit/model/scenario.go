package model

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

// Promises lists what a model promises never to happen:
//
//	var (
//		must     model.Promises
//		errTwo   = must.Never("two clients trust their holds")
//		errToken = must.Never("a token that is not greater than all before it")
//	)
type Promises struct{ all []*Promise }

// Must are the promises of all models: what must never be. Each model adds its own.
var Must Promises

// The promises that several models make.
var (
	ErrToken    = Must.Never("a token that is not greater than all before it")
	ErrAnothers = Must.Never("a command changed what another owner has")
	ErrBack     = Must.Never("a lock that had ended was brought back")
	ErrItself   = Must.Never("a client was refused because of its own earlier attempt")
	ErrFalse    = Must.Never("a holder is told that its lock is lost, which it was not")
	ErrTwo      = Must.Never("two clients trust their holds")
	ErrCut      = Must.Never("a client trusts a hold that the server does not know")
	ErrHolders  = Must.Never("the holder's token is not that of its grant")
	ErrEndless  = Must.Never("a key has no time to live")
	ErrLeft     = Must.Never("the lock is held for nobody, and nothing is on its way that would free it")
)

// Promise is one promise. As an error it is the reason of a violation.
type Promise struct {
	broken Broken
	text   string
}

// Broken is a set of broken promises. A state has one for those that only a step shows, not the state after it.
type Broken uint32

// Never adds a promise. The text says what must never happen.
func (p *Promises) Never(text string) *Promise {
	if len(p.all) == 32 {
		panic("more promises than bits")
	}
	one := &Promise{1 << len(p.all), text}
	p.all = append(p.all, one)
	return one
}

// Error says what must never happen.
func (p *Promise) Error() string { return p.text }

// If adds a promise to the set if a condition holds.
func (b *Broken) If(is bool, p *Promise) {
	if is {
		*b |= p.broken
	}
}

// Add adds a promise to the set.
func (b *Broken) Add(p *Promise) { *b |= p.broken }

// First is the first broken promise, or nil. With only it ignores others, lest they stop a control before it finds that one.
func (p *Promises) First(b Broken, only error) error {
	if b == 0 {
		return nil
	}
	for _, one := range p.all {
		if b&one.broken != 0 && (only == nil || only == error(one)) { //nolint:errorlint // nobody wraps them
			return one
		}
	}
	return nil
}

// Only returns the set without all promises but one, for scenarios that promise nothing else.
func (b Broken) Only(p *Promise) Broken { return b & p.broken }

// Scenario is a model M, whose fields are its bounds. (An alias, so that tables need no field names to please go vet.)
type Scenario[M any] = struct {
	Name string
	In   M
}

// Explorer explores a model of type M without some of its defences. If only is not nil, it ignores other violations.
type Explorer[M any] func(in M, off Defence, only error) (Report, error)

// Run explores scenarios, within the bounds of the level if within is not nil. It logs sizes, and fails for broken promises.
func Run[M any](t *testing.T, of string, explore Explorer[M], within func(M) M, scenarios ...Scenario[M]) {
	for _, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			if within != nil {
				s.In = within(s.In)
			}
			r, err := explore(s.In, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("proof: %s, %s: %d states, %d transitions, depth %d, %d messages cut off by the bounds %s",
				of, s.Name, r.States, r.Transitions, r.Depth, r.Cut, bounds(s.In))
			if r.Violation != nil {
				t.Error(r.Violation)
			}
		})
	}
}

// Large reports whether bounds are wide, which takes minutes: in a soak, or with HOLDFAST_MODEL=large in the environment.
func Large() bool { return level.Soaking() || os.Getenv("HOLDFAST_MODEL") == "large" }

// none matches bounds that are zero. The log leaves them out.
var none = regexp.MustCompile(`\b\w+:(0|false|<nil>|\[[0\[\] ]*\]) ?`)

func bounds(in any) string { return none.ReplaceAllString(fmt.Sprintf("%+v", in), "") }

// Control takes a defence out of a model, which must break a promise: else it defends nothing. (An alias, as Scenario is.)
type Control[M any] = struct {
	What string      // the defence
	Off  Defence     // its bit, and the bits of other defences that would hide the harm
	In   Scenario[M] // the bounds
	Want error       // the promise that breaks
}

// Defence is a set of defences that a control switches off.
type Defence uint64

// Has reports whether the set contains a defence.
func (d Defence) Has(one Defence) bool { return d&one != 0 }

// Controls explores a model without each defence: a promise must break. It logs the traces' lengths; if Large, all of them.
func Controls[M any](t *testing.T, of string, explore Explorer[M], controls []Control[M]) {
	var table strings.Builder
	for _, c := range controls {
		way, err := without(explore, c)
		if err != nil {
			t.Errorf("without %q: %v", c.What, err)
			continue
		}
		fmt.Fprintf(&table, "\nproof:   %-64s %2d steps, %d states: %v", c.What, len(way.Violation.Trace), way.States,
			way.Violation.Reason)
		if Large() {
			t.Logf("without %q: %v", c.What, way.Violation)
		}
	}
	t.Logf("proof: %-73s there is a way of%s", of+": without", table.String())
}

// without runs one control.
func without[M any](explore Explorer[M], c Control[M]) (Report, error) {
	r, err := explore(c.In.In, c.Off, c.Want)
	if err == nil && r.Violation == nil {
		err = fmt.Errorf("nothing is found in %d states; %w was expected", r.States, c.Want)
	}
	return r, err
}
