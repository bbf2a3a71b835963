package lua

// RwStateReply is the reply of the script rw_state, see rw_state.lua. The status says whether the
// lock is held; if not, there are neither a mode nor holders.
type RwStateReply struct {
	Writing bool // the mode is "write"
	Holders []RwHolder

	Token   uint64 // of the last write; 0: none is known
	Waiters int    // who wait to write
}

// RwHolder is a field of a read-write lock's hash.
type RwHolder struct {
	Field  string // the owner that reads, or the owner and ":write"
	Count  int    // of holds; 0 if the hash has something that is not a number
	Millis int64  // left of the lease
}

// RwState decodes the reply of rw_state.
func (r Reply) RwState() (s RwStateReply) {
	at := 0 // of the token
	if r.Status == Done {
		s.Writing = r.text(0) == "write"
		for i := 4; r.Value(i) != nil; i += 3 {
			s.Holders = append(s.Holders, RwHolder{r.text(i), r.count(i + 1), r.number(i + 2)})
		}
		at = 2
	}
	s.Token, s.Waiters = r.token(at), int(r.number(at+1))
	return s
}
