package fair

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/lua"
)

// keys are what a fair lock is at the server, in ticks; TestFairModelIsLikeTheScripts runs them beside the scripts. Redisson's
// waiters are left out, and so are counts: an owner here holds once.
type keys struct {
	line.Store
	owner uint8 // field of the hash, 0: no hash
	ttl   uint8 // of the hash; model.Endless: none
}

// terms are what scripts are given.
type terms = line.Terms

// answer is a reply, and the message that went out beside it.
type answer struct {
	status  lua.Status
	token   uint8 // of a grant
	left    uint8 // of the lock: of a refusal, or of a poll's reply
	holder  uint8 // of a poll's reply
	heard   bool  // of a poll's reply: somebody listens for the client
	missing uint8 // of a poll's reply: one bit for each of the owners that it was sent with
	mail    line.Mail
}

func (k *keys) enqueue(e *terms, owner uint8) {
	if k.Queue.At(owner) < 0 || e.Off.Has(line.OncePlaced) {
		k.Queue.Add(owner, e.Place)
	}
}

// run is the one of part/queue.lua: those of a client from the i-th place on.
func (k *keys) run(e *terms, c uint8, i int) (r line.Run) {
	for n := 0; n < line.MaxRun && i < line.MaxPlaces && k.Queue[i].Owner != 0; i++ {
		if e.Client(k.Queue[i].Owner) != c {
			if e.Off.Has(runEnds) {
				continue
			}
			break
		}
		r[n] = k.Queue[i].Owner
		n++
	}
	return r
}

// reserve takes as many tokens behind the last one as there are in a run.
func (k *keys) reserve(e *terms, r line.Run) {
	if !e.Off.Has(runTokens) {
		k.Token += r.Size()
		k.Clock = max(k.Clock, k.Token+1)
	}
}

// hold writes a grant.
func (k *keys) hold(e *terms, owner, lease uint8) {
	k.NextToken(e)
	k.owner, k.ttl = owner, lease
}

// grant is the one of part/queue.lua.
func (k *keys) grant(e *terms, present uint8) (told line.Mail) {
	if k.Queue.Head() == 0 {
		return told
	}
	var deaf line.Set
	for i := 0; i < line.MaxPlaces && k.Queue[i].Owner != 0; i++ {
		p := k.Queue[i]
		c := e.Client(p.Owner)
		switch {
		case p.Left == 0 || deaf.Has(c):
		case e.Up.Has(c) || e.Off.Has(line.HeedsCount) || c == present && !e.Off.Has(asksIsThere):
			k.Queue.Drop(p.Owner)
			inTime := k.Token < k.Clock
			k.hold(e, p.Owner, e.ClaimLasts())
			first := k.Token
			var r line.Run
			if inTime {
				r = k.run(e, c, i)
				k.reserve(e, r)
			}
			if e.Up.Has(c) {
				told = line.Mail{Owner: p.Owner, Token: first, Left: e.Claim - 1, Run: r}
			}
			return told
		default:
			deaf.Put(c, true)
			if e.Off.Has(line.KeepsPlace) {
				k.Queue.Drop(p.Owner)
				i--
			}
		}
	}
	return told
}

// acquire is fair_acquire.lua.
func (k *keys) acquire(e *terms, owner uint8, again, place bool) (a answer) {
	held := k.owner != 0
	if held && (again || place) && k.owner == owner && !e.Off.Has(line.OwnGrant) {
		if k.Token == 0 {
			k.NextToken(e)
		}
		k.ttl = max(k.ttl, e.Lease)
		k.Queue.Drop(owner)
		return answer{status: lua.Done, token: k.Token}
	}
	get := func() answer {
		k.Queue.Drop(owner)
		k.hold(e, owner, e.Lease)
		return answer{status: lua.Done, token: k.Token}
	}
	if !held {
		if first := k.Queue.Head(); first == 0 || first == owner || e.Off.Has(line.AsksHead) {
			return get()
		}
	}
	if place {
		k.enqueue(e, owner)
	}
	if !held {
		present := uint8(line.Nobody)
		if place {
			present = e.Client(owner)
		}
		a.mail = k.grant(e, present)
		if k.owner == 0 { // all who wait are out of reach
			return get()
		}
		if place && k.owner == owner {
			k.ttl = e.Lease
			a.status, a.token = lua.Done, k.Token
			return a
		}
	}
	a.status, a.left = lua.Denied, k.ttl
	return a
}

// join is fair_join.lua.
func (k *keys) join(e *terms, owners ...uint8) (a answer) {
	if slices.Contains(owners, k.owner) {
		return answer{status: lua.Done}
	}
	for _, owner := range owners {
		k.enqueue(e, owner)
	}
	if k.owner == 0 {
		if a.mail = k.grant(e, e.Client(owners[0])); k.owner == 0 {
			a.status = lua.Done
			return a
		}
	}
	a.status, a.left = lua.Denied, k.ttl
	return a
}

// release is fair_release.lua.
func (k *keys) release(e *terms, owner uint8, served line.Run) (a answer) {
	held := k.owner == owner || k.owner != 0 && e.Off.Has(freesOwn)
	if held {
		k.owner, k.ttl = 0, 0
	} else if !e.Off.Has(line.LeaverGone) {
		k.Queue.Drop(owner)
	}
	for _, had := range served {
		if k.owner == had && had != 0 {
			k.owner, k.ttl, held = 0, 0, true
		}
		if !e.Off.Has(servedGone) {
			k.Queue.Drop(had)
		}
	}
	if k.owner == 0 && k.Queue[0].Owner != 0 && !e.Off.Has(line.HandsOn) {
		a.mail = k.grant(e, line.Nobody)
	}
	if a.status = lua.Gone; held {
		a.status = lua.Done
	}
	return a
}

// poll is fair_poll.lua. owners end with a zero.
func (k *keys) poll(e *terms, c uint8, owners line.Owners) (a answer) {
	for i, owner := range owners {
		if owner == 0 {
			break
		}
		at := k.Queue.At(owner)
		if at < 0 && !e.Off.Has(line.TellsMissing) {
			a.missing |= 1 << i
		}
		if at >= 0 && !e.Off.Has(line.Refreshes) {
			k.Queue[at].Left = max(k.Queue[at].Left, e.Place)
		}
	}
	if k.owner == 0 && k.Queue[0].Owner != 0 {
		a.mail = k.grant(e, c)
	}
	k.Queue.Head()
	a.status, a.left, a.holder, a.heard = lua.Done, k.ttl, k.owner, e.Up.Has(c)
	return a
}

// renew is renew.lua.
func (k *keys) renew(e *terms, owner uint8) (a answer) {
	if k.owner != owner {
		return answer{status: lua.Gone}
	}
	if k.ttl <= e.Lease { // of equal ticks a later lease ends later
		k.ttl = e.Lease
		if k.Token != 0 {
			k.TokenTTL = e.Keep
		}
	}
	return answer{status: lua.Done}
}

// tick is time that passes.
func (k *keys) tick() {
	k.Store.Tick()
	if model.Less(&k.ttl) {
		k.owner = 0
	}
}

// The defences in the scripts, and one more of the client.
const (
	asksIsThere model.Defence = line.Own << iota // grant: who asks can be told by the answer
	freesOwn                                     // release: by the owner only

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

func explore(in line.Bounds, off model.Defence, only error) (model.Report, error) {
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
		s.Wrong.If(a.status == lua.Denied && s.owner == r.ID && r.Place, model.ErrItself)
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

// HandOn hands the lock off within a client. It is false if the run has ended, and then the lock is released.
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
		s.Wrong.If(wr.Token > s.Top, model.ErrToken)
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
