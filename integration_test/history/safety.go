package history

// Violation is a promise that a history shows broken.
type Violation struct {
	Check   string // "exclusion", "linearizability", "wake-up", "fifo", ...
	Name    string // of the lock
	Text    string
	Ops     []Op   // those that contradict each other, or all of the name
	Picture []byte // of linearizability: an HTML page
}

// Exclusion finds owners that trusted their holds of one name at the same moment, but for readers, and an owner that
// reads and writes itself.
func Exclusion(ops []Op, _ Config) (found []Violation) {
	for name, ops := range byName(ops) {
		all := tenures(ops, 0) // by return
		for i := range all {
			t := &all[i]
			for j := range all[:i] {
				other := &all[j]
				together := t.op.Shared && other.op.Shared || t.op.Of == ReadWrite && t.op.Owner == other.op.Owner
				if to := min(t.until, other.until); to > t.op.Return && !together {
					found = append(found, Violation{"exclusion", name, "two holders for " + span(t.op.Return, to),
						[]Op{other.op, t.op}, nil})
				}
			}
		}
	}
	return found
}
