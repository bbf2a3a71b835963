package election

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// electing is the model. Time goes in ticks; a leadership is trusted for a tick less than its lease.
type electing struct {
	lease   uint8 // ticks; an announcement lasts for one more
	wishes  [maxCandidates]uint8
	watched bool  // there is an observer
	slow    bool  // which may know later, when time has passed
	faults  uint8 // answers that do not come in time
	crashes uint8
	leaves  uint8 // callers who give up while they wait
	ends    uint8 // contexts of Run that end
	breaks  uint8 // of the observer's connection
	lapses  uint8 // claims that end unheard
	forces  uint8 // deletions of the lock
	losses  uint8 // of all keys
	off     model.Defence
	only    error // look for this violation alone
	cut     int   // requests for which the bounds had no room
}

func (m *electing) start() state {
	s := state{faults: m.faults, crashes: m.crashes, leaves: m.leaves, ends: m.ends, breaks: m.breaks, lapses: m.lapses,
		forces: m.forces, losses: m.losses}
	for c := range s.c {
		s.c[c].wishes = m.wishes[c]
	}
	if m.watched {
		s.o.at = looking
	}
	return s
}

// explore also looks whether a goal can be reached from everywhere: that the observer knows who leads, by its own and its
// connection's steps alone; else that all who campaign lead or leave, without a fault, a renewal or a new wish.
func (m electing) explore(off model.Defence, only error) (model.Report, error) {
	m.off, m.only = off, only
	explored := model.Model[state]{
		Start: m.start(), Next: m.next, Settle: m.settle, Check: m.check, Goal: calm, Only: only, Cut: &m.cut,
	}
	if m.watched {
		explored.Goal = observed
	}
	return model.Explore(explored)
}

// counts reports whether the goal may count upon what happens by itself at candidates and with time.
func (m *electing) counts() bool { return !m.watched || m.slow }

// one leaves a scenario one candidate, for controls that have to see all states.
func one(s scenario) scenario {
	s.In.wishes = each{1, 0}
	return s
}

// claim is for how many ticks the lock is handed over.
const claim = 2

type (
	each     = [maxCandidates]uint8
	scenario = model.Scenario[electing]
)

// The scenarios. One with everything in it would not end; each has what its defences are against.
var (
	leads   = scenario{"leads", electing{lease: 3, wishes: each{2, 2}, leaves: 1, ends: 1, lapses: 1}}
	repeats = scenario{"repeats", electing{lease: 3, wishes: each{2, 1}, faults: 2}}
	dies    = scenario{"dies", electing{lease: 3, wishes: each{2, 2}, crashes: 1, faults: 1}}
	forced  = scenario{"forced", electing{lease: 3, wishes: each{2, 1}, forces: 1, faults: 1}}
	wiped   = scenario{"server forgets", electing{lease: 3, wishes: each{2, 1}, losses: 1, faults: 1}}
	watched = scenario{"watched", electing{lease: 2, wishes: each{2, 1}, watched: true, breaks: 1}}
	unheard = scenario{"watched, and loses requests", electing{lease: 2, wishes: each{1, 1}, watched: true, faults: 1}}
	again   = scenario{"watched, and the same process again", electing{lease: 2, wishes: each{2, 0}, watched: true,
		faults: 1}}
	deserted = scenario{"watched, and dies", electing{lease: 2, wishes: each{1, 1}, watched: true, crashes: 1, breaks: 1}}
	deleted  = scenario{"watched, and forced", electing{lease: 2, wishes: each{1, 1}, watched: true, forces: 1,
		slow: true}}
)

// large are the bounds of this level: those for a longer look by model.Large; with -short candidates campaign less often.
func large(m electing) electing {
	if testing.Short() && m.wishes[1] > 0 {
		m.wishes = each{1, 1}
		if m.watched && m.breaks == 0 || m.crashes > 0 && m.watched {
			m.wishes = each{1, 0}
		}
	}
	if !model.Large() {
		return m
	}
	switch {
	case m.watched && m.wishes == (each{1, 1}):
		m.lease = 3
	case m.watched && m.breaks > 0: // it is large as it is
	case m.crashes > 0:
		m.ends++
	case m.watched || m.wishes == (each{2, 2}):
		m.lapses++
	default:
		m.leaves++
	}
	return m
}

// TestElectionModel: in no state that can be reached is a promise broken.
func TestElectionModel(t *testing.T) {
	model.Run(t, "election model", electing.explore, large, leads, repeats, dies, forced, wiped,
		watched, unheard, deserted, again, deleted)
}

// What must never be.
var (
	errBeside    = model.Must.Never("a process campaigns while its function is at work")
	errFunctions = model.Must.Never("two functions of one process are at work")
	errLeft      = model.Must.Never("what a leader said stands when it has resigned")
	errUntrue    = model.Must.Never("an observer is told of a leader that does not lead")
	errBackwards = model.Must.Never("an observer is told of an earlier leader after a later one")
	errUnheld    = model.Must.Never("who does not hold the lock has announced itself")
	errToken     = model.Must.Never("a leader's token is not greater than all before it")
	errUnknown   = model.Must.Never("what the present leader said is not what is told")
	errEndless   = model.Must.Never("an announcement has no end")
	errKept      = model.Must.Never("the lock is held for nobody, and nothing is on its way that would free it")
	errCut       = model.Must.Never("a leader trusts what the server does not know")
	errSilent    = model.Must.Never("a leader leads that has not announced itself")
	errTwo       = model.Must.Never("two lead, and both trust it")
	errWork      = model.Must.Never("two functions are at work that have not lost their leadership")
)

func (m *electing) check(s *state) error {
	broken := s.wrong
	broken.If(s.announced && (s.said != s.token || s.saidBy != s.owner), errUnknown)
	broken.If(s.said != 0 && (s.saidTTL == 0 || s.saidTTL > m.lease+1), errEndless)
	broken.If(!m.cared(s), errKept)
	if s.harmed {
		return model.Must.First(broken, m.only)
	}
	for c := range s.c {
		cd := &s.c[c]
		trusts := cd.trust > 0 && (cd.mode == leading || cd.mode == announcing)
		broken.If(trusts && s.owner != s.id(c), errCut)
		broken.If(trusts && cd.mode == leading && !s.announced, errSilent)
	}
	a, b := &s.c[0], &s.c[1]
	broken.If(a.mode == leading && b.mode == leading && a.trust > 0 && b.trust > 0, errTwo)
	broken.If(a.works > 0 && b.works > 0 && !a.lost && !b.lost, errWork)
	return model.Must.First(broken, m.only)
}

// cared reports whether somebody cares for the lock that is held.
func (m *electing) cared(s *state) bool {
	c, _ := ownerOf(max(s.owner, 1))
	return s.owner == 0 || s.c[c].dead || s.id(c) == s.owner && s.c[c].mode != away || s.undo&(1<<s.owner) != 0 ||
		model.Count(s.net[:], func(r request) bool { return r.kind == release && r.id == s.owner }) > 0
}

// observed is a goal: what was told last is so.
func observed(s *state) bool {
	now := uint8(0)
	if s.said != 0 && s.owner == s.saidBy {
		now = s.said
	}
	return s.o.began && s.o.last == now
}

// calm is a goal: all who have campaigned have led, or have left.
func calm(s *state) bool { return s.c[0].mode == away && s.c[1].mode == away }

// TestElectionModelControls: without any one of the defences there is a way to break a promise.
func TestElectionModelControls(t *testing.T) {
	model.Controls(t, "election model", electing.explore, []model.Control[electing]{
		{"grant: each has a token of its own", newToken, leads, errToken},
		{"announce: by the holder only, and not in place of a later one", holderOnly | notOlder, repeats, errUnknown},
		{"announce: by the holder only", holderOnly, repeats, errUnheld},
		{"announce: not in place of a later one", notOlder | freshTerm, again, errBackwards},
		{"announce: what is said has an end", saidEnds, leads, errEndless},
		{"announce: observers are told", tellsAnnounce, one(watched), model.ErrStuck},
		{"release: what was said goes with the lock", releaseDeletes, leads, errLeft},
		{"release: only of the holder", releaseOwner, leads, errUnknown},
		{"release: observers are told", tellsRelease, one(watched), model.ErrStuck},
		{"renew: what was said lasts for longer too", renewSaid, leads, errUnknown},
		{"leader: who said it holds the lock", leaderHolds, deserted, errUntrue},
		{"client: each campaign has an owner id of its own", freshTerm, again, errUntrue},
		{"client: who cannot announce itself gives the leadership back", givesBack, repeats, errKept},
		{"client: a leader leads when it has announced itself", announces, leads, errSilent},
		{"client: a leader's context ends by its own clock", deadline, leads, errTwo},
		{"the same, where nobody has the lock yet", deadline, leads, errCut},
		{"Run: it waits for the function before it campaigns", waitLead, leads, errBeside},
		{"the same, when it leads again", waitLead, leads, errFunctions},
		{"Run: and before it resigns", resignAfter, leads, errWork},
		{"observer: a message makes it look", hears, one(watched), model.ErrStuck},
		{"observer: it looks when it listens", looksFirst, one(watched), model.ErrStuck},
		{"observer: and when it listens again", looksAgain, one(watched), model.ErrStuck},
		{"observer: and when the lease would have ended", looksEnd, one(deserted), model.ErrStuck},
		{"observer: and when it got no answer", retries, one(unheard), model.ErrStuck},
	})
}

// next takes every step that can be taken in s.
func (m *electing) next(s state, out *steps) {
	for c := range s.c {
		m.candidate(s, c, out)
	}
	m.observes(s, out)
	m.network(s, out)
	m.harms(s, out)
	m.time(s, out)
}

// settle drops what no later step depends on: a leader's greatest token, where all that begin from here have greater ones.
func (m *electing) settle(s *state) bool {
	uses := func(cd candidate) bool { return cd.mode == announcing && cd.token <= s.top }
	if !m.off.Has(newToken) && !slices.ContainsFunc(s.c[:], uses) {
		s.top = 0
	}
	return true
}

// terms are what scripts are told, and who can be reached.
func (m *electing) terms(s *state) terms {
	t := terms{off: m.off, lease: m.lease, claim: claim, keep: m.lease + 1}
	for c := range s.c {
		t.deaf[c] = s.c[c].dead
	}
	return t
}

// run executes a request, and notes what it did: whatever a client believes, these things must not happen.
func (m *electing) run(s *state, r request) (a answer) {
	t := m.terms(s)
	before := s.owner
	switch r.kind {
	case announce:
		a = s.announce(&t, r.id, r.token)
		s.wrong.If(a.status == lua.Done && r.id != s.owner, errUnheld)
		s.announced = s.announced || a.status == lua.Done && r.id == s.owner && r.token == s.token
	case release:
		a = s.release(&t, r.id)
		s.wrong.If(a.status == lua.Done && s.saidBy == r.id, errLeft)
	case renewal:
		a = s.renew(&t, r.id)
	}
	m.after(s, before, a)
	return a
}

// after sends the messages of a script.
func (m *electing) after(s *state, before uint8, a answer) {
	if s.owner != before {
		s.announced = false
	}
	if a.told && s.o.link.Up() {
		s.o.mail = true
	}
	if a.mail == 0 {
		return
	}
	if c, _ := ownerOf(a.mail); s.id(c) == a.mail && s.c[c].mode == waiting {
		s.c[c].mail, s.c[c].stands = s.token, claim-1
	}
}

// network is what happens to requests that nobody waits for, and work in the background.
func (m *electing) network(s state, out *steps) {
	for id := uint8(1); s.undo>>id != 0; id++ {
		if s.undo&(1<<id) == 0 {
			continue
		}
		c, _ := ownerOf(id)
		n := s
		n.undo &^= 1 << id
		m.run(&n, request{kind: release, id: id})
		model.Change(n.net[:], func(r request) (request, bool) {
			return r, r.id != id || r.kind != release // it is repeated for as long as a release may be under way
		})
		out.Step('A'+c, "an undo releases", m.counts(), n)
	}
	for i, r := range model.Under(s.net[:]) {
		n := s
		model.Take(n.net[:], i)
		out.Step(0, "a late request is lost", m.counts(), n)
		m.run(&n, r)
		out.Loud(0, "a late request arrives", n)
	}
}

// harms are what happens to the server's data.
func (m *electing) harms(s state, out *steps) {
	if n := s; model.Spend(&n.forces) && s.owner != 0 {
		n.owner, n.ttl, n.announced, n.harmed = 0, 0, false, true
		out.Loud(0, "somebody deletes the lock", n)
	}
	if n := s; model.Spend(&n.losses) {
		n.keys = keys{token: s.token} // which are no less than the clock
		n.announced, n.harmed = false, true
		out.Loud(0, "the server loses its keys", n)
	}
}

// time is a tick. It does not pass while a message of a grant, or an answer to a look, is overdue.
func (m *electing) time(s state, out *steps) {
	if s.o.at == looked {
		return
	}
	n := s
	n.tick()
	n.announced = n.announced && n.owner != 0
	for c := range n.c {
		cd := &n.c[c]
		if cd.mail != 0 {
			if n.lapses == 0 {
				return
			}
			n.lapses--
			if model.Less(&cd.stands); cd.stands == 0 {
				cd.mail = 0
			}
		}
		model.Less(&cd.renewed)
		if cd.trust == 0 || cd.trust == 1 && m.off.Has(deadline) {
			continue
		}
		if cd.trust--; cd.trust == 0 {
			m.lose(&n, c)
		}
	}
	if n.o.at == asleep {
		model.Less(&n.o.timer)
	}
	out.Step(0, "time passes", m.counts(), n)
}

// observes is what the observer does.
func (m *electing) observes(s state, out *steps) {
	o := &s.o
	n := s
	switch o.at {
	case absent:
		return
	case looking:
		t := m.terms(&s)
		a := s.leader(&t)
		n.o.at, n.o.token, n.o.lasts = looked, a.token, a.left
		n.wrong.If(a.status == lua.Done && (s.owner != s.saidBy || a.token != s.token), errUntrue)
		out.Quiet('O', "the server executes its look", n)
		if n := s; model.Spend(&n.faults) {
			n.o.at, n.o.timer = asleep, 0
			if m.off.Has(retries) {
				n.o.timer = model.Endless
			}
			out.Loud('O', "hears nothing of its look", n)
		}
	case looked:
		n.o.tell(m)
		n.wrong.If(o.token != 0 && o.token < o.most, errBackwards)
		out.Quiet('O', "gets the answer to its look", n)
	case asleep:
		if o.wake || o.timer == 0 {
			n.o.at, n.o.wake, n.o.timer = looking, false, 0
			out.Quiet('O', "has reason to look", n)
		}
	}
	m.links(s, out)
}

// tell is what an observer makes of the answer.
func (o *observer) tell(m *electing) {
	o.began, o.last, o.most = true, o.token, max(o.most, o.token)
	o.at, o.timer = asleep, model.Endless
	if o.token != 0 && o.lasts != 0 && !m.off.Has(looksEnd) {
		o.timer = o.lasts
	}
	o.token, o.lasts = 0, 0
}

// links are what becomes of the subscription.
func (m *electing) links(s state, out *steps) {
	o := &s.o
	n := s
	switch o.link {
	case model.Off:
		n.o.link = model.On
		out.Quiet('O', "the server subscribes it", n)
	case model.On:
		n.o.link, n.o.anew = model.Heard, true
		n.o.wake = o.wake || !o.anew && !m.off.Has(looksFirst) || o.anew && !m.off.Has(looksAgain)
		out.Quiet('O', "knows that it listens", n)
	case model.Severed:
		n.o.link, n.o.wake = model.Off, true
		out.Quiet('O', "notices that its connection is broken", n)
	}
	if o.link == model.Heard && o.mail {
		n = s
		n.o.mail = false
		n.o.wake = o.wake || !m.off.Has(hears)
		out.Quiet('O', "gets a message", n)
	}
	if n := s; model.Spend(&n.breaks) && o.link.Up() {
		n.o.link, n.o.mail = model.Severed, false
		out.Loud(0, "O's connection breaks", n)
	}
}
