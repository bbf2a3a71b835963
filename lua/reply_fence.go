package lua

// FenceReply is the reply of the script fence, see fence.lua.
type FenceReply struct {
	Result any    // after any status but Denied: what the command replied, as go-redis has it
	Last   string // after Denied: the last token, decimal
}

// Fence decodes the reply of fence.
func (r Reply) Fence() FenceReply {
	if r.Status == Denied {
		return FenceReply{Last: r.text(0)}
	}
	return FenceReply{Result: r.Value(0)}
}
