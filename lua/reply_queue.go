package lua

// PollReply is the reply of the scripts fair_poll and sem_poll, see fair_poll.lua and sem_poll.lua.
type PollReply struct {
	Millis int64  // left of the lock's lease, or of the first lease of a permit that ends
	Time   string // of the server, in microseconds, decimal

	// Holder is the owner that holds the lock, or how many fields the hash has that is not a lock.
	// Of a semaphore it is the owner of this client that was handed permits last, or else the one
	// whose permit ends first. Empty: nobody holds it, or that is not known.
	Holder string
	// Called is the waiter of this client that Redisson will call, on a channel of its own. Of a
	// semaphore it is "redisson" where Redisson's clients have permits. Empty: none.
	Called    string
	Listeners int64 // on the client's mailbox at this server; -1: not known
	Far       bool  // several other clients are before all waiters of this one

	// Permits are those of a semaphore. Only sem_poll tells them.
	Permits Permits

	// Missing are the owners of this client that have no place. Of a semaphore those that were
	// handed permits are before them.
	Missing []string
}

// Poll decodes the reply of fair_poll and sem_poll.
func (r Reply) Poll() PollReply {
	p := PollReply{
		Millis: r.number(0), Time: r.text(1), Holder: r.text(2), Called: r.text(3), Listeners: r.number(4),
		Far: r.number(5) == 1,
	}
	rest := 6
	if r.number(rest) == ofPermits {
		p.Permits, rest = r.permits(rest+1), rest+4
	}
	p.Missing = r.texts(rest)
	return p
}

// SemStateReply is the reply of the script sem_state, see sem_state.lua.
type SemStateReply struct {
	Permits, Free, Waiters int
	Out                    []Permit // those that end first
}

// Permit is a permit that is not free.
type Permit struct {
	Name   string // its owner, with a number behind it for the second and later ones; Redisson's are random
	Millis int64  // left of its lease
}

// SemState decodes the reply of sem_state.
func (r Reply) SemState() SemStateReply {
	s := SemStateReply{Permits: int(r.number(0)), Free: int(r.number(1)), Waiters: int(r.number(2))}
	for i := 3; r.Value(i) != nil; i += 2 {
		s.Out = append(s.Out, Permit{r.text(i), r.number(i + 1)})
	}
	return s
}
