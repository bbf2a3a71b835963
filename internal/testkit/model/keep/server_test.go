package keep

import "github.com/holdfast-go/holdfast/lua"

// answer is a reply.
type answer struct {
	status lua.Status
	lo, hi uint8
	called bool // the owner's client
}

// acquire is acquire.lua for one who asks for block tokens.
func (s *state) acquire(owner, lease uint8, again bool, block uint8) answer {
	switch {
	case s.owner == 0:
	case again && s.owner == owner:
		s.ttl = max(s.ttl, lease)
		return answer{status: lua.Done, lo: s.token, hi: s.token}
	default:
		return answer{status: lua.Denied, called: s.owner != theirs && owner == theirs}
	}
	s.owner, s.ttl = owner, lease
	lo := s.token + 1
	s.token += block
	return answer{status: lua.Done, lo: lo, hi: s.token}
}

// pass is pass.lua.
func (s *state) pass(owner, lease, block uint8, listened bool) answer {
	switch {
	case s.owner != owner:
		return answer{status: lua.Gone}
	case listened:
		s.owner, s.ttl = 0, 0
		return answer{status: lua.Denied}
	}
	s.ttl = max(s.ttl, lease)
	lo := s.token + 1
	s.token += block
	return answer{status: lua.Done, lo: lo, hi: s.token}
}

// release is release.lua.
func (s *state) release(owner uint8) answer {
	if s.owner != owner {
		return answer{status: lua.Gone}
	}
	s.owner, s.ttl = 0, 0
	return answer{status: lua.Done}
}

// call is a message to A's mailbox. A second one under way says no more than the first.
func (s *state) call() {
	if s.a.box == on || s.a.box == heard {
		s.a.calls = 1
	}
}

// announce wakes B if it listens.
func (s *state) announce() {
	if s.b.listens {
		s.b.told = true
	}
}

// run executes a request of A's.
func (m *keeping) run(s *state, r request, again bool) (a answer) {
	before := s.owner
	switch r.kind {
	case acquire:
		a = s.acquire(r.id, m.lease, again, 1)
	case pass:
		a = s.pass(r.id, m.lease, m.block, s.b.listens)
	case release:
		a = s.release(r.id)
	}
	if before != 0 && s.owner == 0 {
		s.announce()
	}
	return a
}
