package lua

// LeaderReply is the reply Done of the script election_leader, see election_leader.lua.
type LeaderReply struct {
	Owner  string // as the hash has it
	Token  string // decimal
	Value  string // what the leader announced
	Millis int64  // left of the lease
}

// Leader decodes the reply of election_leader.
func (r Reply) Leader() LeaderReply {
	return LeaderReply{Owner: r.text(0), Token: r.text(1), Value: r.text(2), Millis: r.number(3)}
}
