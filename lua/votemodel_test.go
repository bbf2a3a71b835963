package lua_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/model"
)

// voting is the model of a quorum lock: independent masters that run vote, renew and release, two clients that want the lock again and
// again, a network that loses, delays and reorders what was sent on different connections, masters that are started anew without
// their data, and processes that die. What goes wrong with answers happens to client A; B is who is harmed.
//
// Time goes in ticks, for all clocks alike; a hold is trusted for a tick less than its lease, counted from the sending. Client and
// masters are always scheduled. All masters are asked at once: that one is asked first where many want the lock makes fewer
// interleavings, not others. The fields are the bounds.
type voting struct {
	voters  int
	lease   uint8 // ticks
	wishes  uint8 // elections that each client stands for; 0: as many as it likes
	tokens  bool
	renews  bool // there is a watchdog
	faults  uint8
	letters int // that were given up and may still arrive, at a time
	crashes uint8
	losses  uint8
	weak    bool // masters that were started together vote, see believes
	shy     bool // no answer may be a holder's, see contested
	brief   bool // messages do not live longer than a tick
	off     voteDefence
	only    error
	cut     int // messages for which the bounds had no room
}

func (m *voting) start() voteState {
	s := voteState{faults: m.faults, crashes: m.crashes, losses: m.losses}
	if m.tokens {
		s.clock = 1
	}
	for i := range m.voters {
		if !m.weak {
			s.voters[i].age = m.lease
		}
	}
	return s
}

// explore looks whether a goal can be reached from everywhere, by steps that are no faults.
func (m *voting) explore(t testing.TB, goal func(voteState) bool, quiet func(string) bool) model.Report[voteState] {
	t.Helper()
	explored := model.Model[voteState]{Start: []voteState{m.start()}, Next: m.next, Check: m.check, MaxStates: 4_000_000}
	if m.only == nil || errors.Is(m.only, model.ErrStuck) {
		explored.Goal, explored.Quiet = goal, quiet
	}
	r, err := model.Explore(explored)
	require.NoError(t, err)
	return r
}

// frees: the lock becomes free, and nothing is left, if nobody wants it any more.
func (m *voting) frees(t testing.TB) model.Report[voteState] {
	t.Helper()
	return m.explore(t, m.free, func(label string) bool { return !voteLoud[label] && !voteStands[label] })
}

var (
	splits   = voting{voters: 3, lease: 2}
	renewals = voting{voters: 3, lease: 3, renews: true}
)

func TestVoteModel(t *testing.T) {
	for _, scenario := range []struct {
		name string
		m    voting
	}{{"splits", splits}, {"renews", renewals}} {
		t.Run(scenario.name, func(t *testing.T) {
			m := scenario.m
			r := m.frees(t)
			t.Logf("proof: quorum model, %s: %d states, %d transitions, depth %d, %d messages cut off by the bounds", scenario.name,
				r.States, r.Transitions, r.Depth, m.cut)
			if r.Violation != nil {
				t.Error(r.Violation)
			}
		})
	}
}
