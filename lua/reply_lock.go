package lua

// PassReply is the reply of the script pass, see pass.lua.
type PassReply struct {
	// After Done: the tokens that are reserved, decimal.
	First, Last string

	// After Denied: the lock is released.
	Listeners   int64  // how many clients were told; -1: not known
	Unannounced string // why they could not be told; empty: they were
	HeadStart   int64  // the longest that one of them needs, ms
}

// Pass decodes the reply of pass.
func (r Reply) Pass() PassReply {
	if r.Status == Done {
		return PassReply{First: r.text(0), Last: r.text(1)}
	}
	return PassReply{Listeners: r.number(0), Unannounced: r.text(1), HeadStart: r.number(2)}
}

// Reply makes the reply that [Reply.Pass] decodes, for locks that several servers grant, or none.
func (p PassReply) Reply(status Status) Reply {
	if status == Done {
		return NewReply(Done, p.First, p.Last)
	}
	return NewReply(status, p.Listeners, p.Unannounced, p.HeadStart)
}

// StateReply is the reply of the scripts state and fair_state, see state.lua and fair_state.lua.
// The status says whether the lock is held; if not, the first three are zero.
type StateReply struct {
	Owner  string // as the hash has it
	Count  int    // of holds; 0 if the hash has something that is not a number
	Millis int64  // left of the lease; -1: it has no end

	Token   uint64 // the last one that is known; 0: none
	Waiters int    // whose places count; only fair_state tells them
}

// State decodes the reply of state and fair_state.
func (r Reply) State() (s StateReply) {
	at := 0 // of the token
	if r.Status == Done {
		s.Owner, s.Count, s.Millis = r.text(0), r.count(1), r.number(2)
		at = 3
	}
	s.Token, s.Waiters = r.token(at), int(r.number(at+1))
	return s
}

// TakenReply is the reply of the script taken, see taken.lua.
type TakenReply struct {
	Token  string // the last one that is known, decimal; "0": none
	Others bool   // another owner has the lock, or its key is not a hash
}

// Taken decodes the reply of taken.
func (r Reply) Taken() TakenReply { return TakenReply{Token: r.text(0), Others: r.number(1) != 0} }

// ForceReply is the reply of the scripts force_owner, rw_force_writer and sem_force, see
// force_owner.lua.
type ForceReply struct {
	Unannounced string // after Done: why the waiters could not be told, empty: they were
	Token       string // after any other status: the last one that is known, decimal; "0": none
}

// Force decodes the reply of force_owner, rw_force_writer and sem_force. (The script force replies
// as release does, see [Reply.Unannounced].)
func (r Reply) Force() ForceReply {
	if r.Status == Done {
		return ForceReply{Unannounced: r.Unannounced()}
	}
	return ForceReply{Token: r.text(0)}
}
