package line

import "github.com/holdfast-go/holdfast/internal/testkit/model"

// Model is a model with a line of waiters.
type Model[S comparable] interface {
	Server
	// Start is the first state, but for the line.
	Start() S
	// Parts are the line and the store in a state.
	Parts(s *S) (*State, *Store)
	// Settle is that of a [model.Model]. The line has been settled.
	Settle(s *S) bool
	// Check returns what is wrong with a state, nil if nothing is.
	Check(s *S) error
	// AtRest reports whether nobody holds, waits or does anything, and so everybody was served.
	AtRest(s *S) bool
}

// Exploration is a line with the whole states of a model.
type Exploration[S comparable] struct {
	Line
	From, To S // where the steps begin that are taken, and where the present one ends
	out      *model.Steps[S]
}

// Explore explores a model within some bounds. It also looks whether all who wait can be served from
// everywhere, and all can come to rest: by messages, polls, answers, unlocks and time, without a
// fault, a renewal or a new wish.
func (e *Exploration[S]) Explore(m Model[S], in Bounds, off model.Defence, only error) (model.Report, error) {
	e.Line = Line{Bounds: in.within(), Off: off, Only: only, server: m, whole: e}
	e.from, _ = m.Parts(&e.From)
	e.to, e.store = m.Parts(&e.To)
	explored := model.Model[S]{Start: m.Start(), Next: e.next, Settle: m.Settle, Check: m.Check, MaxStates: 8_000_000}
	line, store := m.Parts(&explored.Start)
	*line = State{
		Faults: e.Faults, Leaves: e.Leaves, Crashes: e.Crashes, Pauses: e.Pauses, Breaks: e.Breaks, Losses: e.Losses,
	}
	for w := range e.Waiters {
		line.Waiters[w].Wishes = e.Wishes[w]
	}
	store.Clock = 1
	if model.Looks(only) {
		explored.Goal = m.AtRest
	}
	r, err := model.Explore(explored)
	r.Cut = e.cut
	return r, err
}

func (e *Exploration[S]) next(s S, out *model.Steps[S]) {
	from, outer := e.From, e.out // out may look for the way to a violation by calling this again
	e.From, e.out = s, out
	e.steps()
	e.From, e.out = from, outer
}

// Start is the first state of a model to which nothing is to be added.
func (e *Exploration[S]) Start() (s S) { return s }

// Settle has nothing to do in a model whose server remembers nobody.
func (e *Exploration[S]) Settle(*S) bool { return true }

// Others takes no steps, in a model with nobody but the line.
func (e *Exploration[S]) Others() {}

// HandOn does nothing, in a model without runs.
func (e *Exploration[S]) HandOn(uint8) bool { return false }

func (e *Exploration[S]) begin() { e.To = e.From }

func (e *Exploration[S]) end(who int, what string, quiet bool) { e.out.Step(who, what, quiet, e.To) }
