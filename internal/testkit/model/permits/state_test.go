package permits

import (
	"cmp"

	"github.com/holdfast-go/holdfast/internal/testkit/model"
	"github.com/holdfast-go/holdfast/internal/testkit/model/line"
	"github.com/holdfast-go/holdfast/lua"
)

// The defences in the scripts.
const (
	looksFree    model.Defence = line.Own << iota // acquire: no more is granted than is free
	handsFree                                     // grant: no more is handed out than is free
	inOrder                                       // grant: who wants less does not pass who wants more
	takesOwn                                      // acquire: what an owner has left is counted before it gets anything
	countsNew                                     // hold: what the owner has already is not counted again
	countsAll                                     // release: all permits of an owner are counted
	countsGone                                    // release: and none that it did not have
	countsEnded                                   // sweep: those whose leases have ended are counted
	setsAll                                       // set: what is out is a part of the number
	renewsOwn                                     // renew: nothing is brought back
	handsRest                                     // acquire: what the head leaves goes to those behind it
	onlySoMany                                    // acquire: who wants more than there are is told
	manyDropped                                   // grant: who wants more than there are has no place any more
	manyTold                                      // grant: and is told
	silentPassed                                  // grant: a client that let a claim end is passed over
	sweepsFirst                                   // grant: which is known before anything is handed out
	tellsGiven                                    // poll: who was handed permits is told
	newTokens                                     // a token is greater than the last
)

// freshOwner: an owner id is used for one acquisition.
const freshOwner = line.FreshOwner | line.FreshUndo

const (
	maxOut    = 6
	maxGrants = 6 // of one script, and messages
)

// foreigner is the owner of a permit of Redisson's, which has none.
const foreigner = line.LastID + 1

// permit is what an owner has. Zero: nobody. Without permits it is a mark that it was handed some.
type permit struct {
	owner  uint8
	n      int8
	left   uint8 // ticks; 0: its lease has ended, and nobody has taken it back
	handed bool  // unasked, and it has not asked or given back since
	torn   bool  // Redisson has taken back the one that has no number
}

// state is all there is at one moment.
type state struct {
	keys
	line.State
	claims  [line.MaxClients]int8 // permits handed to a client since it was heard of
	total   int8                  // how many permits there are to be
	allowed int8                  // how many may be out: more where the number was made less

	sets, takes uint8 // that may still come
}

// exploration is one under way.
type exploration struct {
	line.Exploration[state]
	in semaphore
	at terms
}

func (s semaphore) explore(off model.Defence, only error) (model.Report, error) {
	s.Listening, s.NewOwners = true, true
	s.permits = cmp.Or(s.permits, 2)
	for w, n := range s.want {
		s.Together[w] = n == 1
	}
	m := &exploration{in: s, at: terms{want: s.want, permits: s.permits}}
	return m.Explore(m, s.Bounds, off, only)
}

func (m *exploration) Start() state {
	return state{total: m.in.permits, allowed: m.in.permits, sets: m.in.sets, takes: m.in.takes}
}

func (m *exploration) Parts(s *state) (*line.State, *line.Store) { return &s.State, &s.Store }

// Settle forgets marks of what was handed to those who have left.
func (m *exploration) Settle(s *state) bool {
	for i, p := range model.Under(s.out[:]) {
		s.out[i].handed = p.handed && (p.n > 0 || m.CaredFor(&s.State, p.owner))
	}
	s.tidy()
	return true
}

func (m *exploration) terms() *terms {
	m.at.Terms, m.at.fresh = *m.Terms(), 0
	return &m.at
}

func (m *exploration) Execute(r line.Request) line.Answer {
	s, before, e := &m.To, m.To.keys, m.terms()
	var a answer
	switch {
	case r.Asks():
		a = s.acquire(e, r.ID, r.Again, r.Place)
		s.Wrong.If(a.status == lua.Denied && s.has(r.ID), model.ErrItself)
	case r.Frees():
		a = s.release(e, r.ID)
	default:
		a = s.renew(e, r.ID)
	}
	return m.done(&before, r, &a)
}

func (m *exploration) ExecuteFor(r line.Request, c uint8, owners line.Owners) line.Answer {
	before := m.To.keys
	if r.Kind == line.Joins {
		a := m.To.join(m.terms(), owners)
		return m.done(&before, r, &a)
	}
	a := m.To.poll(m.terms(), c, owners)
	return m.done(&before, r, &a)
}

// done is what follows a script: judges look at it, and messages are on their way.
func (m *exploration) done(before *keys, r line.Request, a *answer) line.Answer {
	m.judge(before, r, a)
	for _, to := range a.mail[:a.mails] {
		m.Post(to)
	}
	return line.Answer{Status: a.status, Token: a.token, Missing: a.missing, Given: a.given}
}

// Others are the steps of those who are no waiters: who sets the number of permits, and a client of Redisson.
func (m *exploration) Others() {
	for permits := m.in.fewest; permits <= m.in.most && m.From.sets > 0; permits++ {
		if permits != m.From.total {
			m.Begin()
			before := m.To.keys
			m.To.sets--
			m.To.total = permits
			a := m.To.set(m.terms(), permits)
			m.done(&before, line.Request{Kind: line.Sets}, &a)
			m.Loud(0, [...]string{1: "1 permit is set", 2: "2 permits are set", 3: "3 permits are set"}[permits])
		}
	}
	if m.From.of(foreigner) != nil {
		m.Begin()
		m.To.foreignGives()
		m.settle()
		m.Quiet(0, "a client of Redisson gives its permit back")
	} else if m.From.takes > 0 && m.From.counted {
		ended := false
		for _, p := range m.From.out {
			if p.n > 0 && p.left == 0 {
				ended = true
				m.foreignTakes(p.owner)
			}
		}
		if !ended && m.From.free > 0 {
			m.foreignTakes(0)
		}
	}
}

func (m *exploration) foreignTakes(ended uint8) {
	m.Begin()
	m.To.takes--
	m.To.foreignTakes(m.terms(), ended)
	m.settle()
	m.Loud(0, "a client of Redisson asks for a permit")
}

func (m *exploration) Tick() {
	s := &m.To
	s.tick()
	m.settle()
	if m.Prompt && m.Pauses == 0 {
		m.JudgeDeadlines()
		for _, p := range s.out { // nor what it was handed
			s.Wrong.If(p.n > 0 && p.left == 0 && p.handed && s.Waits(p.owner), errWasted)
		}
	}
}

func (m *exploration) EndQueue() { m.To.endQueue() }

func (m *exploration) Lose() {
	m.To.keys, m.To.total, m.To.allowed = keys{}, m.in.permits, m.in.permits
}

// acquire is sem_acquire.lua.
func (k *keys) acquire(e *terms, owner uint8, again, place bool) (a answer) {
	k.count(e, false)
	n := e.wants(owner)
	granted := func() answer {
		a.status, a.token = lua.Done, k.nextToken(e)
		a.grant(owner, a.token, true)
		return a
	}
	if k.has(owner) && !e.Off.Has(line.OwnGrant) {
		p := k.of(owner)
		p.left = max(p.left, e.Lease)
		k.drop(owner)
		return granted()
	}
	if (again || place) && !e.Off.Has(takesOwn) {
		k.free += k.removeOwn(owner)
	}
	if n > k.all() && !e.Off.Has(onlySoMany) {
		k.drop(owner)
		a.status = line.Excess
		return a
	}
	first := k.Queue.Head()
	if n > k.free || first != 0 && first != owner && !e.Off.Has(sweepsFirst) {
		k.sweep(e)
	}
	present := uint8(line.Nobody)
	if place {
		present = e.Client(owner)
	}
	enough := func() bool { return n <= k.free || e.Off.Has(looksFree) }
	get := func() answer {
		k.hold(e, owner, e.Lease)
		if first != 0 {
			k.drop(owner)
		}
		return granted()
	}
	if enough() && (first == 0 || first == owner || e.Off.Has(line.AsksHead)) {
		a = get()
		if first != 0 && k.free > 0 && !e.Off.Has(handsRest) {
			k.handOut(e, present, &a)
		}
		return a
	}
	if place {
		k.enqueue(e, owner)
	}
	waits := false
	if k.free > 0 {
		waits = k.handOut(e, present, &a)
	}
	if i := a.grantTo(owner); i >= 0 { // all before it are out of reach, or have been served
		k.of(owner).left = e.Lease
		k.drop(owner)
		a.status, a.token, a.grants[i].asked = lua.Done, a.grants[i].token, true
		return a
	}
	if !waits && enough() { // all who wait are out of reach
		return get()
	}
	a.status, a.left = lua.Denied, k.nearest()
	return a
}

// grantTo is which of the grants of a script was to an owner, -1: none.
func (a *answer) grantTo(owner uint8) int {
	for i := range a.granted {
		if a.grants[i].owner == owner {
			return i
		}
	}
	return -1
}

// nearest is what is left of the lease that ends first; none: there is no lease.
const none = 254

func (k *keys) nearest() uint8 {
	first := uint8(none)
	for _, p := range k.out {
		if p.n > 0 {
			first = min(first, p.left)
		}
	}
	return first
}

// join is sem_join.lua. owners end with a zero.
func (k *keys) join(e *terms, owners line.Owners) (a answer) {
	k.count(e, false)
	for _, owner := range owners {
		if p := k.of(owner); owner != 0 && p != nil && p.n > 0 && !p.torn {
			return answer{status: lua.Done}
		}
	}
	if k.all() < 1 {
		return answer{status: lua.Done}
	}
	for _, owner := range owners {
		if owner != 0 {
			k.enqueue(e, owner)
		}
	}
	if !e.Off.Has(sweepsFirst) {
		k.sweep(e)
	}
	if k.free > 0 {
		k.handOut(e, e.Client(owners[0]), &a)
	}
	a.status, a.left = lua.Denied, k.nearest()
	return a
}

// release is sem_release.lua.
func (k *keys) release(e *terms, owner uint8) (a answer) {
	held := k.has(owner)
	n := k.removeOwn(owner)
	if !e.Off.Has(line.LeaverGone) {
		k.drop(owner)
	}
	counted := k.counted
	k.count(e, true)
	switch {
	case !counted:
	case n == 0 && e.Off.Has(countsGone):
		k.free++
	case n > 1 && e.Off.Has(countsAll):
		k.free++
	default:
		k.free += n
	}
	k.sweep(e)
	if !e.Off.Has(line.HandsOn) {
		k.handOut(e, line.Nobody, &a)
	}
	a.others = max(k.free, 0)
	if a.status = lua.Gone; held {
		a.status = lua.Done
	}
	return a
}

// poll is sem_poll.lua. owners end with a zero.
func (k *keys) poll(e *terms, c uint8, owners line.Owners) (a answer) {
	k.count(e, true)
	for i, owner := range owners {
		switch {
		case owner == 0:
		case k.counts(owner):
			k.enqueue(e, owner)
		case !e.Off.Has(line.TellsMissing):
			a.missing |= 1 << i
		}
	}
	for i, p := range model.Under(k.Queue[:]) {
		k.Queue[i].Stale = p.Stale && e.Client(p.Owner) != c
	}
	k.sweep(e)
	k.handOut(e, c, &a)
	a.status, a.left, a.heard = lua.Done, k.nearest(), e.Up.Has(c)
	for _, p := range k.out {
		switch {
		case p.owner == foreigner:
			a.foreign = true
		case p.handed && k.has(p.owner) && e.Client(p.owner) == c && !e.Off.Has(tellsGiven):
			a.given |= 1 << p.owner
		}
	}
	return a
}

// renew is sem_renew.lua.
func (k *keys) renew(e *terms, owner uint8) (a answer) {
	if !k.has(owner) {
		if e.Off.Has(renewsOwn) {
			p := k.entry(owner)
			p.n, p.left, p.torn = e.wants(owner), e.Lease, false
			return answer{status: lua.Done}
		}
		return answer{status: lua.Gone}
	}
	p := k.of(owner)
	p.left = max(p.left, e.Lease)
	if k.Token != 0 {
		k.TokenTTL = max(k.TokenTTL, e.Keep)
	}
	return answer{status: lua.Done}
}

// set is sem_set.lua.
func (k *keys) set(e *terms, permits int8) (a answer) {
	k.count(e, false)
	k.free += permits - k.all()
	if e.Off.Has(setsAll) {
		k.free = permits
	}
	k.sweep(e)
	k.handOut(e, line.Nobody, &a)
	a.status, a.others = lua.Done, max(k.free, 0)
	return a
}

// foreignTakes: Redisson first takes back one permit of ended, whose lease is over. It reports whether it got one itself.
func (k *keys) foreignTakes(e *terms, ended uint8) bool {
	if p := k.of(ended); ended != 0 && p != nil {
		p.n--
		p.torn = p.n > 0
		k.free++
		k.tidy()
	}
	if !k.counted || k.free < 1 || k.of(foreigner) != nil {
		return false
	}
	k.free--
	p := k.entry(foreigner)
	p.n, p.left = 1, e.Lease
	return true
}

// foreignGives is what it sends to give it back.
func (k *keys) foreignGives() {
	if p := k.of(foreigner); p != nil {
		p.n = 0
		k.free++
		k.tidy()
	}
}

// tick is time that passes.
func (k *keys) tick() {
	k.Store.Tick()
	for i := range k.out {
		model.Less(&k.out[i].left)
	}
}

// endQueue is the end of the queue's keys.
func (k *keys) endQueue() {
	k.Queue = line.Queue{}
	for i := range k.out {
		k.out[i].handed = false
	}
	k.tidy()
}
