package fair

import (
	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/lua"
)

// defence is a set of defences of the fair lock that are switched off.
type defence = model.Defence

// The defences in the scripts, and one more of the client.
const (
	asksIsThere defence = line.Own << iota // grant: who asks can be told by the answer
	freesOwn                               // release: by the owner only

	runEnds    // grant: a run ends before another client's waiter
	runTokens  // grant: tokens are reserved for a run
	servedGone // release: those who were served have no place any more
	runWaits   // client: a run does not hand the lock to who has a question under way
)

// state is all there is at one moment.
type state struct {
	keys
	claimed bool // the lock was handed over, and its owner has not said anything since
	line.State
}

// fair is an exploration under way.
type fair struct{ line.Exploration[state] }

func explore(in line.Bounds, off defence, only error) (model.Report, error) {
	m := &fair{}
	return m.Explore(m, in, off, only)
}

func (m *fair) Parts(s *state) (*line.State, *line.Store) { return &s.State, &s.Store }

func (m *fair) Execute(r line.Request) line.Answer {
	s, before, e := &m.To, m.To.keys, m.Terms()
	var a answer
	switch {
	case r.Asks():
		a = s.acquire(e, r.ID, r.Again, r.Place)
		s.Wrong.If(a.status == lua.Denied && s.owner == r.ID && r.Place, line.ErrItself)
	case r.Frees():
		a = s.release(e, r.ID, r.Served)
	default:
		a = s.renew(e, r.ID)
	}
	m.judge(&before, r)
	m.Post(a.mail)
	return line.Answer{Status: a.status, Token: a.token}
}

// ExecuteFor is a poll: clients ask for places one by one.
func (m *fair) ExecuteFor(r line.Request, c uint8, owners line.Owners) line.Answer {
	before := m.To.keys
	a := m.To.poll(m.Terms(), c, owners)
	m.judge(&before, r)
	m.Post(a.mail)
	return line.Answer{Status: a.status, Missing: a.missing, Given: 1 << a.holder}
}

// HandOn hands the lock on within a client. It is false if the run has ended, and then the lock is
// released.
func (m *fair) HandOn(w uint8) bool {
	s := &m.To
	from := s.Waiters[w]
	for from.Run[0] != 0 && !from.Stray {
		next := from.Run.Pop()
		to, _ := line.WaiterOf(next)
		wr := &s.Waiters[to]
		if m.Home[to] != m.Home[w] || !s.Waits(next) {
			continue // it has left, or is not ours
		}
		if (wr.Stray || wr.Granted != 0 || wr.Handed != 0) && !m.Off.Has(runWaits) {
			break
		}
		m.judgeRun(&from, next)
		from.Served.Push(next)
		*wr = line.Waiter{
			Mode: line.Has, Gen: wr.Gen, Wishes: wr.Wishes, Token: from.Token + 1, Trust: from.Trust,
			Renewed: from.Renewed, Field: from.Field, Run: from.Run, Served: from.Served,
		}
		s.Wrong.If(wr.Token > s.Top, line.ErrToken)
		m.Rest(w, false)
		return true
	}
	return false
}

func (m *fair) Tick() {
	m.To.tick()
	m.To.claimed = m.To.claimed && m.To.owner != 0
	if m.Prompt {
		m.JudgeDeadlines()
	}
}

func (m *fair) EndQueue() { m.To.Queue = line.Queue{} }

func (m *fair) Lose() { m.To.keys, m.To.claimed = keys{}, false }
