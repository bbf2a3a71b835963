package master

// IsReplica reports whether a reply to HELLO is that of a replica: a map in RESP3, a list in RESP2. HELLO says
// what ROLE says, and no user needs a permission for it.
func IsReplica(hello any) bool {
	switch reply := hello.(type) {
	case map[any]any:
		return reply["role"] == "replica"
	case []any:
		for i := 0; i+1 < len(reply); i += 2 {
			if reply[i] == "role" {
				return reply[i+1] == "replica"
			}
		}
	}
	return false
}
