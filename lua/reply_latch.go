package lua

// LatchReply is the reply of the scripts that change a latch, see latch_set.lua, latch_count.lua
// and latch_delete.lua.
type LatchReply struct {
	Changed     bool   // of latch_set and latch_delete: it was set, or taken away
	Left        int    // of latch_count: what is left to count; 0: the latch is open
	Time        string // of the server, in microseconds, decimal
	Unannounced string // why the waiters could not be told that it is open; empty: they were
}

// Latch decodes the reply of latch_set, latch_count and latch_delete.
func (r Reply) Latch() LatchReply {
	n := r.number(0)
	return LatchReply{Changed: n == 1, Left: int(n), Time: r.text(1), Unannounced: r.text(2)}
}

// LatchLookReply is the reply of the script latch_look, see latch_look.lua.
type LatchLookReply struct {
	Left   int   // to count; 0: the latch is open, or was never set
	Millis int64 // until the key ends; -1: it has no end
}

// LatchLook decodes the reply of latch_look.
func (r Reply) LatchLook() LatchLookReply {
	return LatchLookReply{Left: int(r.number(0)), Millis: r.number(1)}
}
