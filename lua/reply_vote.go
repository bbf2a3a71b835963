package lua

// VoteReply is the reply of the script vote, see vote.lua.
type VoteReply struct {
	// After Done. Neither Fresh nor Again is set in a reply that the script does not make.
	Token string // of the owner, decimal
	Fresh bool   // the owner holds the lock only now
	Again bool   // the owner held it before

	// After Denied.
	Millis int64  // until the lease of the other owner ends; -1: it has no end
	Owner  string // as the hash has it

	// Last is the last token that the master knew, decimal: before a grant that is Fresh, or that
	// of the other owner.
	Last string
	Time string // of the server, in microseconds, decimal
}

// Vote decodes the reply of vote.
func (r Reply) Vote() VoteReply {
	v := VoteReply{Last: r.text(2), Time: r.text(3)}
	if r.Status == Done {
		before := r.number(1)
		v.Token, v.Fresh, v.Again = r.text(0), before == 0, before == 1
	} else {
		v.Millis, v.Owner = r.number(0), r.text(1)
	}
	return v
}

// VoteOfState turns the reply of state into what vote would reply to an owner that does not hold the lock: Denied,
// or Gone where nobody holds it.
func VoteOfState(state Reply) Reply {
	if state.Status != Done {
		return NewReply(Gone)
	}
	return NewReply(Denied, state.number(2), state.text(0), state.text(3))
}
